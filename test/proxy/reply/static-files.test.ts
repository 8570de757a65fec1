import { gunzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { docsFiles } from "../../../proxy/docs/files.ts";
import { servedSite } from "../../../proxy/site/files.ts";
import { clientFiles } from "../../../proxy/site/static-files.ts";
import { type Endpoint, endpoints } from "../../../schemas/endpoints.ts";
import { sha256 } from "../../../snapshots/store/layout.ts";
import { outcome } from "../../helpers/http/proxy-client.ts";
import { serveTestProxy } from "../../helpers/http/proxy-served.ts";

const clients = [
  "/client.js",
  "/client.d.ts",
  "/client.mjs",
  "/client.d.mts",
  "/recompute.mjs",
  "/client.py",
];

const proxy = serveTestProxy();
const files = [...servedSite(), ...clientFiles, ...docsFiles()];

describe("static files", () => {
  test("are those of the endpoint table, one for each name of a closed list", () => {
    const listed = Object.values<Endpoint>(endpoints).flatMap(({ path, files: names = [] }) =>
      names.map((name) => path.replace(":file", name)),
    );
    const single = ["/", ...clients, "/openapi.json", "/docs/"];
    expect(files.map(({ path }) => path).sort()).toEqual([...single, ...listed].sort());
  });

  test.each(files)("$path: whole, in both codings, by its own tag", async ({ path, read, contentType }) => {
    const bytes = await read();
    const plain = await proxy.get(path);
    expect(plain.status).toBe(200);
    expect(plain.body.equals(bytes)).toBe(true);
    expect(plain.headers).toMatchObject({
      "content-type": contentType,
      "cache-control": "no-cache",
      vary: "Accept-Encoding",
      etag: `"${sha256(bytes)}"`,
      "x-content-type-options": "nosniff",
      "x-request-id": expect.stringMatching(/^[0-9a-f-]{36}$/),
      "x-snapshot-id": expect.stringMatching(/^[0-9a-f]{64}$/),
    });
    expect(plain.headers["x-ratelimit-remaining"]).toBeUndefined();
    const zipped = await proxy.get(path, { headers: { "accept-encoding": "gzip" } });
    expect(zipped.headers["content-encoding"]).toBe("gzip");
    expect(gunzipSync(zipped.body).equals(bytes)).toBe(true);
    expect(zipped.headers.etag).not.toBe(plain.headers.etag);
    for (const { etag } of [plain.headers, zipped.headers]) {
      const held = await proxy.get(path, { headers: { "accept-encoding": "gzip", "if-none-match": etag! } });
      expect([held.status, held.headers.etag, held.body.length]).toEqual([304, etag, 0]);
    }
    const open = ["/openapi.json", ...clients].includes(path) ? "*" : undefined;
    expect(plain.headers["access-control-allow-origin"]).toBe(open);
    expect(outcome(await proxy.get(path, { headers: { "x-api-key": "wrong" } }))).toBe("200");
  });

  test("the page /docs/ finds the description and its files below any path, and asks the service's own address", async () => {
    const of = (apiUrl?: URL) => new Map(docsFiles({ apiUrl }).map((file) => [file.path, file]));
    const own = of();
    for (const path of ["/docs/", "/docs/start.js"])
      expect(String(await own.get(path)?.read())).not.toMatch(/["'(]\/(?!\/)/);
    const below = of(new URL("https://example.org/scores/"));
    expect(String(await below.get("/openapi.json")?.read())).toContain(
      '"servers":[{"url":"https://example.org/scores"}]',
    );
    expect(below.get("/docs/")?.headers?.["content-security-policy"]).toContain(
      "connect-src 'self' https://example.org;",
    );
  });
});

import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { sampleDefaults, writeSample } from "../../snapshots/sample/sample.ts";
import { directoryStorage } from "../../snapshots/store/backends/directory.ts";
import { headersOf, layout } from "../../snapshots/store/layout.ts";
import { type Call, call } from "../helpers/http/proxy-client.ts";
import { publishSources } from "../helpers/publish/sample-sources.ts";
import { findNginx, type Nginx, startFolderCdn } from "../helpers/servers/nginx.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

const nginx = findNginx();

describe.skipIf(!nginx)("a CDN that serves public/ of a folder", () => {
  const folder = testFolder();
  const storage = directoryStorage(join(folder, "store"));
  let cdn: Nginx;
  beforeAll(async () => {
    const directory = join(folder, "sources");
    await writeSample({ ...sampleDefaults, directory, markets: 200, protocols: 12, days: 2 });
    await publishSources(directory, storage, folder, { siteUrl: "https://cdn.example.org/public" });
    await storage.put(layout.checkpoint, Buffer.from("a checkpoint\n"));
    await storage.put(layout.key("0123456789abcdef"), Buffer.from("{}"));
    cdn = await startFolderCdn(nginx!, storage.location);
  });
  afterAll(() => cdn?.stop());

  const get = (target: string, how?: Call) => call(cdn.port, target, how);
  const keysUnder = async (prefix: string) => {
    const keys: string[] = [];
    for await (const { key } of storage.list(prefix)) keys.push(key);
    return keys;
  };

  test("sends every public object with its type, cache rule, ETag and CORS", async () => {
    const keys = await keysUnder("public/");
    expect(keys).toEqual(
      expect.arrayContaining([
        layout.apiCatalog,
        layout.checkpoint,
        layout.dataset,
        layout.feed,
        layout.llms,
      ]),
    );
    for (const key of keys) {
      const { status, headers, body } = await get(`/${key}`);
      const { contentType, cacheControl } = headersOf(key);
      expect(status, key).toBe(200);
      expect(body.equals((await storage.get(key))!), key).toBe(true);
      expect(headers, key).toMatchObject({
        "content-type": contentType,
        "cache-control": cacheControl,
        etag: expect.stringMatching(/^"[^"]+"$/),
        "access-control-allow-origin": "*",
        "access-control-expose-headers": "ETag",
      });
      const unchanged = await get(`/${key}`, { headers: { "If-None-Match": headers.etag! } });
      expect([unchanged.status, unchanged.headers["access-control-allow-origin"]], key).toEqual([304, "*"]);
      const zipped = await get(`/${key}`, { headers: { "Accept-Encoding": "gzip" } });
      expect([zipped.text, zipped.headers["content-encoding"]], key).toEqual([
        body.toString(),
        body.length < 1000 || contentType === "image/png" ? undefined : "gzip",
      ]);
    }
  });

  test("answers what is not there with CORS, and is not written to", async () => {
    for (const name of [layout.stableScore("nobody"), "public/.well-known/none", "public/objects/"]) {
      const { status, headers } = await get(`/${name}`);
      expect([403, 404], name).toContain(status);
      expect([headers["access-control-allow-origin"], headers["cache-control"]], name).toEqual([
        "*",
        undefined,
      ]);
    }
    for (const method of ["PUT", "POST", "DELETE", "OPTIONS"])
      expect((await get(`/${layout.stableScoreList}`, { method })).status, method).toBe(405);
  });

  test("reaches nothing else, nor what is being written", async () => {
    const half = join("public", "objects", ".tmp-1-0123456789abcdef");
    await mkdir(join(storage.location, "public", "objects"), { recursive: true });
    await writeFile(join(storage.location, half), "half");
    expect((await get(`/${half}`)).status).toBe(404);
    const others = (await keysUnder("")).filter((key) => !key.startsWith("public/"));
    expect(new Set(others.map((key) => key.split("/")[0]))).toContain("keys");
    for (const key of others)
      for (const target of [
        `/${key}`,
        `//${key}`,
        `/public/../${key}`,
        `/public/%2e%2e/${key}`,
        `/public/..%2f${key.replaceAll("/", "%2f")}`,
        `/public/protocols/../../${key}`,
        `/public${key}`,
        `/public../${key}`,
      ])
        expect([400, 403, 404], target).toContain((await get(target)).status);
    for (const target of ["/", "/public", "/public/objects", "/public/badges/"])
      expect([301, 403, 404], target).toContain((await get(target)).status);
  });
});

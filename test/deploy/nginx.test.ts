import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { publishedSite } from "../../proxy/site/files.ts";
import { ScoreList } from "../../schemas/envelopes.ts";
import { ProtocolScore } from "../../schemas/records.ts";
import type { Manifest } from "../../schemas/snapshot.ts";
import { tilesOf } from "../../snapshots/format/log-tree.ts";
import { sampleDefaults, writeSample } from "../../snapshots/sample/sample.ts";
import { headersOf, layout } from "../../snapshots/store/layout.ts";
import { newestCommit } from "../../snapshots/store/log/commits.ts";
import { readManifest } from "../../snapshots/store/manifest.ts";
import { openStorage } from "../../snapshots/store/open-storage.ts";
import type { Storage } from "../../snapshots/store/storage.ts";
import { type Call, call } from "../helpers/http/proxy-client.ts";
import { publishSources } from "../helpers/publish/sample-sources.ts";
import { createBucket, letCdnRead, s3Environment } from "../helpers/servers/ceph.ts";
import { findNginx, type Nginx, startCdn } from "../helpers/servers/nginx.ts";

const environment = s3Environment();
const nginx = findNginx();
const protocols = 25;

describe.skipIf(!environment || !nginx)("a CDN that serves public/ of the bucket", () => {
  let folder: string;
  let storage: Storage;
  let bucket: URL;
  let cdn: Nginx;
  let manifest: Manifest;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "prs-cdn-"));
    const location = await createBucket(environment!);
    bucket = new URL(location.slice("s3://".length), `${environment!.AWS_ENDPOINT_URL_S3}/`);
    storage = await openStorage(location, folder, environment);
    const directory = join(folder, "sources");
    await writeSample({ ...sampleDefaults, directory, markets: 2000, protocols, days: 8 });
    await publishSources(directory, storage, folder, { siteUrl: "https://cdn.example.org/public" });
    manifest = await readManifest(storage, (await newestCommit(storage))!.manifest);
    await letCdnRead(environment!, location);
    cdn = await startCdn(nginx!, bucket);
  });
  afterAll(async () => {
    await cdn?.stop();
    await rm(folder, { recursive: true, force: true });
  });

  const get = (target: string, how?: Call) => call(cdn.port, target, how);
  const keysUnder = async (prefix: string) => {
    const keys: string[] = [];
    for await (const { key } of storage.list(prefix)) keys.push(key);
    return keys;
  };

  test("answers the list and every record under stable names, as published", async () => {
    const list = ScoreList.parse((await get(`/${layout.stableScoreList}`)).json());
    expect(list.count).toBe(protocols);
    expect(list.scores.map(({ slug }) => slug).sort()).toEqual(Object.keys(manifest.scores.records).sort());
    for (const entry of list.scores) {
      const record = ProtocolScore.parse((await get(`/${layout.stableScore(entry.slug)}`)).json());
      const { category, chain, tvl } = record.metadata;
      expect({ ...record, category, chain, tvl }).toMatchObject(entry);
      const stored = await storage.get(layout.publicObject(manifest.scores.records[entry.slug]!.hash));
      expect(record).toEqual(JSON.parse(stored!.toString()));
    }
  });

  test("sends every public object with its type, cache rule, ETag and CORS", async () => {
    const keys = await keysUnder("public/");
    expect(keys).toEqual(
      expect.arrayContaining([layout.dataset, layout.apiCatalog, layout.feed, layout.llms]),
    );
    const [scores, site, ofProtocols] = [2 * (protocols + 1), publishedSite.files(null).size, 2 * protocols];
    expect(keys).toHaveLength(scores + site + ofProtocols + 6 + tilesOf(1).length);
    for (const key of keys) {
      const { status, headers, body } = await get(`/${key}`);
      const { contentType, cacheControl } = headersOf(key);
      expect(status, key).toBe(200);
      expect(headers, key).toMatchObject({
        "content-type": contentType,
        "cache-control": cacheControl,
        "content-length": String(body.length),
        etag: expect.stringMatching(/^"[^"]+"$/),
        "access-control-allow-origin": "*",
        "access-control-expose-headers": "ETag",
      });
      const unchanged = await get(`/${key}`, { headers: { "If-None-Match": headers.etag! } });
      expect(unchanged, key).toMatchObject({ status: 304, body: Buffer.alloc(0) });
      expect(unchanged.headers["access-control-allow-origin"]).toBe("*");
      const zipped = await get(`/${key}`, { headers: { "Accept-Encoding": "gzip" } });
      expect([zipped.text, zipped.headers["content-encoding"]], key).toEqual([
        body.toString(),
        body.length < 1000 || contentType === "image/png" ? undefined : "gzip",
      ]);
      const held = await get(`/${key}`, { headers: { "If-None-Match": zipped.headers.etag! } });
      expect(held.status, key).toBe(304);
      const head = await get(`/${key}`, { method: "HEAD" });
      expect(head, key).toMatchObject({ status: 200, body: Buffer.alloc(0) });
      expect(head.headers.etag).toBe(headers.etag);
    }
  });

  test("lets pages of any origin read that there is none", async () => {
    for (const name of [layout.stableScore("nobody"), layout.badge("nobody"), "public/.well-known/none"]) {
      const { status, headers } = await get(`/${name}`);
      expect([403, 404], name).toContain(status);
      expect(headers["access-control-allow-origin"], name).toBe("*");
    }
  });

  test("shows nothing of what plans are paid for", async () => {
    for (const key of [...(await keysUnder("public/api/")), ...(await keysUnder(layout.publicObjects))]) {
      const { text } = await get(`/${key}`);
      expect(text, key).not.toMatch(/history|change7d|percentile|resolvedOutcome|composite/i);
    }
  });

  test("reaches nothing else, by any path", async () => {
    await storage.put(layout.key("0123456789abcdef"), Buffer.from("{}"));
    const others = (await keysUnder("")).filter((key) => !key.startsWith("public/"));
    expect(new Set(others.map((key) => key.split("/")[0]))).toEqual(
      new Set(["checked.json", "commits", "head.json", "keys", "manifests", "private", "probe.json"]),
    );
    for (const key of others) {
      for (const target of tricks(bucket.pathname.slice(1), key)) {
        const { status, body } = await get(target);
        expect([400, 403, 404], `${target}: ${body}`).toContain(status);
      }
    }
  });

  test("lists nothing and runs no command of S3", async () => {
    const list = `/${layout.stableScoreList}`;
    for (const query of ["list-type=2", "acl", "policy", "versions", "uploads", "location", "tagging"]) {
      for (const path of ["/", "/public", "/public/", "/public/api/v1/", `/${layout.publicObjects}`]) {
        expect([403, 404], `${path}?${query}`).toContain((await get(`${path}?${query}`)).status);
      }
      expect((await get(`${list}?${query}`)).json()).toEqual((await get(list)).json());
    }
    for (const method of ["PUT", "POST", "DELETE", "OPTIONS"]) {
      expect((await get(list, { method })).status, method).toBe(403);
    }
    expect(await storage.get(layout.stableScoreList)).toBeDefined();
  });

  test("is not the only guard: the bucket itself refuses the rest", async () => {
    const port = Number(bucket.port);
    const ask = (target: string, how?: Call) => call(port, `${bucket.pathname}${target}`, how);
    expect((await ask(`/${layout.stableScoreList}`)).status).toBe(200);
    for (const key of [
      ...(await keysUnder("")).filter((name) => !name.startsWith("public/")),
      "keys/none.json",
    ]) {
      expect((await ask(`/${key}`)).status, key).toBe(403);
    }
    for (const target of [
      "",
      "/",
      "?list-type=2&prefix=public/",
      `/${layout.stableScoreList}?acl`,
      "?policy",
    ]) {
      expect((await ask(target)).status, target).toBe(403);
    }
    for (const method of ["PUT", "DELETE"]) {
      const how = { method, headers: { "Content-Length": "0" } };
      expect((await ask(`/${layout.stableScoreList}`, how)).status, method).toBe(403);
    }
  });
});

/** Spellings of an address outside public/ that servers on the way might take apart differently. */
function tricks(bucket: string, key: string): string[] {
  return [
    `/${key}`,
    `//${key}`,
    `/public/../${key}`,
    `/public/./../${key}`,
    `/public//../../${key}`,
    `/public/%2e%2e/${key}`,
    `/public/%2E%2E%2F${key}`,
    `/public/..%2f${key.replaceAll("/", "%2f")}`,
    `/public/%252e%252e/${key}`,
    `/public/..;/${key}`,
    `/public/..\\${key}`,
    `/public/..%5c${key}`,
    `/public/${key}`,
    `/public/../../${bucket}/${key}`,
    `/${bucket}/${key}`,
    `/public/%00/../../${key}`,
    `/PUBLIC/../${key}`,
    `/public/?/../../${key}`,
    `/public/#/../../${key}`,
    `http://127.0.0.1/${bucket}/${key}`,
  ];
}

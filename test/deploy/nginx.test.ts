import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { HeadObjectCommand } from "@aws-sdk/client-s3";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { publishedSite } from "../../proxy/site/files.ts";
import type { Manifest } from "../../schemas/store/stored-objects.ts";
import { tilesOf } from "../../snapshots/format/log-tiles.ts";
import { sampleDefaults, writeSample } from "../../snapshots/sample/sample.ts";
import { directoryStorage } from "../../snapshots/store/backends/directory.ts";
import { headersOf, layout } from "../../snapshots/store/layout.ts";
import { newestCommit } from "../../snapshots/store/log/commits.ts";
import { readManifest } from "../../snapshots/store/manifest.ts";
import { openStorage } from "../../snapshots/store/open-storage.ts";
import type { Storage } from "../../snapshots/store/storage.ts";
import { type Answer, type Call, call } from "../helpers/http/proxy-client.ts";
import { publishSources } from "../helpers/publish/sample-sources.ts";
import { createBucket, letCdnRead, s3Environment, withClient } from "../helpers/servers/ceph.ts";
import { findNginx, type Nginx, startCdn, startFolderCdn } from "../helpers/servers/nginx.ts";
import { cdnHeaders } from "../helpers/servers/public-tree.ts";
import { listed } from "../helpers/store/storages.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

const environment = s3Environment();
const nginx = findNginx();
const protocols = 8;

/** A CDN in front of a store, and the name that the store has on the way. */
interface Cdn {
  storage: Storage;
  cdn: Nginx;
  store: string;
}

/** The public tree of a store behind the CDN that `start` makes, for every test of the suite. */
function served(
  start: (folder: string) => Promise<{ storage: Storage; serve: () => Promise<Omit<Cdn, "storage">> }>,
) {
  const folder = testFolder();
  const on = {} as Cdn & { manifest: Manifest };
  beforeAll(async () => {
    const { storage, serve } = await start(folder);
    const directory = join(folder, "sources");
    await writeSample({ ...sampleDefaults, directory, markets: 200, protocols, days: 2 });
    await publishSources(directory, storage, folder, { names: { site: "https://cdn.example.org/public" } });
    await storage.put(layout.logCheckpoint, Buffer.from("a checkpoint\n"));
    await storage.put(layout.key("0123456789abcdef"), Buffer.from("{}"));
    const manifest = await readManifest(storage, (await newestCommit(storage))!);
    Object.assign(on, { storage, manifest, ...(await serve()) });
  });
  afterAll(() => on.cdn?.stop());
  const get = (target: string, how?: Call) => call(on.cdn.port, target, how);
  const keysUnder = async (prefix: string) => (await listed(on.storage, prefix)).map(({ key }) => key);
  testTree(on, get, keysUnder);
  return { on, get, keysUnder };
}

/** Defines the tests of what every CDN does. */
function testTree(
  on: Cdn & { manifest: Manifest },
  get: (target: string, how?: Call) => Promise<Answer>,
  keysUnder: (prefix: string) => Promise<string[]>,
): void {
  test("sends every public object with its type, cache rule, ETag and CORS", async () => {
    const keys = await keysUnder("public/");
    expect(keys).toEqual(
      expect.arrayContaining([layout.dataset, layout.apiCatalog, layout.feed, layout.llms]),
    );
    const [scores, site, ofProtocols] = [2 * (protocols + 1), publishedSite.keys.length, 4 * protocols];
    expect(keys).toHaveLength(scores + site + ofProtocols + 9 + tilesOf(1).length);
    for (const key of keys) {
      const { status, headers, body } = await get(`/${key}`);
      const { contentType, cacheControl } = headersOf(key);
      expect(status, key).toBe(200);
      expect(body.equals((await on.storage.get(key))!), key).toBe(true);
      expect(headers, key).toMatchObject({
        "content-type": contentType,
        "cache-control": cacheControl,
        "content-length": String(body.length),
        etag: expect.stringMatching(/^"[^"]+"$/),
      });
      const added = cdnHeaders(key);
      expect(Object.fromEntries(Object.keys(added).map((name) => [name, headers[name]]))).toEqual(added);
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
      const { "access-control-allow-origin": origin, "cache-control": rule } = headers;
      expect([origin, rule], name).toEqual(["*", undefined]);
    }
  });

  test("shows nothing of what plans are paid for", async () => {
    const paid = /history|change7d|percentile|resolvedOutcome|composite/i;
    for (const prefix of ["public/api/", layout.publicObject.prefix])
      for (const key of await keysUnder(prefix)) expect((await get(`/${key}`)).text, key).not.toMatch(paid);
  });

  test("reaches nothing else, by any path", async () => {
    const all = (await keysUnder("")).filter((key) => !key.startsWith("public/"));
    // One of each kind.
    const others = new Map(all.map((key) => [key.split("/")[0]!, key]));
    const kinds = ["checked.json", "commits", "keys", "manifests", "private", "probe.json"];
    expect([...others.keys()].sort()).toEqual(kinds);
    const index = (await on.storage.get("public/index.html"))!;
    for (const key of others.values()) {
      for (const target of tricks(on.store, key)) {
        const { status, body } = await get(target);
        // What stands before ? and # may be the address of the site itself.
        const ofSite = /^\/public\/[?#]/.test(target) && status === 200 && body.equals(index);
        if (!ofSite) expect([400, 403, 404], `${target}: ${body}`).toContain(status);
      }
    }
  });
}

describe.skipIf(!nginx)("a CDN that serves public/ of a folder", () => {
  const { on, get } = served(async (folder) => {
    const storage = directoryStorage(join(folder, "store"));
    const serve = async () => ({ cdn: await startFolderCdn(nginx!, storage.location), store: "store" });
    return { storage, serve };
  });

  test("shows neither folders nor what is being written, and is not written to", async () => {
    const half = join("public", "objects", ".tmp-1-0123456789abcdef");
    await mkdir(join(on.storage.location, "public", "objects"), { recursive: true });
    await writeFile(join(on.storage.location, half), "half");
    expect((await get(`/${half}`)).status).toBe(404);
    for (const target of ["/", "/public", "/public/objects", "/public/objects/", "/public/badges/"])
      expect([301, 403, 404], target).toContain((await get(target)).status);
    for (const method of ["PUT", "POST", "DELETE", "OPTIONS"])
      expect((await get(`/${layout.stableScoreList}`, { method })).status, method).toBe(405);
  });
});

describe.skipIf(!environment || !nginx)("a CDN that serves public/ of the bucket", () => {
  let bucket: URL;
  const { on, get, keysUnder } = served(async (folder) => {
    const location = await createBucket(environment!);
    bucket = new URL(location.slice("s3://".length), `${environment!.AWS_ENDPOINT_URL_S3}/`);
    const serve = async () => {
      await letCdnRead(environment!, location);
      return { cdn: await startCdn(nginx!, bucket), store: bucket.pathname.slice(1) };
    };
    return { storage: await openStorage(location, folder, environment), serve };
  });

  test("lists nothing and runs no command of S3", async () => {
    const list = `/${layout.stableScoreList}`;
    for (const query of ["list-type=2", "acl", "policy", "versions", "uploads", "location", "tagging"]) {
      for (const path of ["/", "/public", "/public/", "/public/api/v1/", `/${layout.publicObject.prefix}`])
        expect([403, 404], `${path}?${query}`).toContain((await get(`${path}?${query}`)).status);
      expect((await get(`${list}?${query}`)).json()).toEqual((await get(list)).json());
    }
    for (const method of ["PUT", "POST", "DELETE", "OPTIONS"])
      expect((await get(list, { method })).status, method).toBe(403);
    expect(await on.storage.get(layout.stableScoreList)).toBeDefined();
  });

  test("is not the only guard: the bucket itself refuses the rest", async () => {
    const port = Number(bucket.port);
    const ask = (target: string, how?: Call) => call(port, `${bucket.pathname}${target}`, how);
    expect((await ask(`/${layout.stableScoreList}`)).status).toBe(200);
    const others = (await keysUnder("")).filter((name) => !name.startsWith("public/"));
    const listing = ["", "/", "?list-type=2&prefix=public/", `/${layout.stableScoreList}?acl`, "?policy"];
    await withClient(environment!, async (client) => {
      const Bucket = bucket.pathname.slice(1);
      for (const Key of others)
        expect(await client.send(new HeadObjectCommand({ Bucket, Key }))).toMatchObject({
          ContentType: headersOf(Key).contentType,
          CacheControl: "private, no-store",
        });
    });
    for (const target of [...[...others, "keys/none.json"].map((key) => `/${key}`), ...listing])
      expect((await ask(target)).status, target).toBe(403);
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
    `/public${key}`,
    `/public../${key}`,
    `/public/protocols/../../${key}`,
    `/public/../../${bucket}/${key}`,
    `/${bucket}/${key}`,
    `/public/%00/../../${key}`,
    `/PUBLIC/../${key}`,
    `/public/?/../../${key}`,
    `/public/#/../../${key}`,
    `http://127.0.0.1/${bucket}/${key}`,
  ];
}

import { HeadObjectCommand } from "@aws-sdk/client-s3";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { headersOf, layout } from "../../snapshots/store/layout.ts";
import type { Storage } from "../../snapshots/store/storage.ts";
import { startTestProxy, type TestProxy } from "../helpers/http/proxy.ts";
import { call, problemOf } from "../helpers/http/proxy-client.ts";
import {
  createBucket,
  letCdnRead,
  letNobodyRead,
  s3Environment,
  withClient,
} from "../helpers/servers/ceph.ts";

const environment = s3Environment();

describe.skipIf(!environment)("a bucket that holds a store", () => {
  let location: string;
  let bucket: URL;
  let storage: Storage;
  let proxy: TestProxy;

  beforeAll(async () => {
    location = await createBucket(environment!);
    bucket = new URL(location.slice("s3://".length), `${environment!.AWS_ENDPOINT_URL_S3}/`);
    await letCdnRead(environment!, location);
    proxy = await startTestProxy({
      snapshotStore: location,
      environment: environment!,
      publicOrigin: bucket,
    });
    ({ storage } = proxy);
    await proxy.issue();
  });
  afterAll(() => proxy.stop());

  const read = (key: string) => call(Number(bucket.port), `${bucket.pathname}/${key}`);

  test("has the right headers on every object", async () => {
    const types = new Map<string, string>();
    await withClient(environment!, async (client) => {
      for await (const { key, bytes } of storage.list("")) {
        const head = await client.send(
          new HeadObjectCommand({ Bucket: location.slice("s3://".length), Key: key }),
        );
        const { contentType, cacheControl } = headersOf(key);
        const { ContentType, CacheControl, ContentEncoding, ContentLength } = head;
        expect({ key, ContentType, CacheControl, ContentEncoding, ContentLength }).toEqual({
          key,
          ContentType: contentType,
          CacheControl: cacheControl,
          ContentEncoding: undefined,
          ContentLength: bytes,
        });
        types.set(key.replace(/[^/]*$/, ""), `${ContentType}; ${CacheControl}`);
      }
    });
    // In words, so that a wrong table shows too.
    const unseen = "private, no-store";
    const shortly = "public, max-age=60, stale-while-revalidate=600";
    const stable = `application/json; ${shortly}`;
    expect(Object.fromEntries(types)).toEqual({
      "": `application/json; ${unseen}`,
      "commits/": `application/json; ${unseen}`,
      "keys/": `application/json; ${unseen}`,
      "manifests/": `application/json; ${unseen}`,
      "private/lists/": `application/json; ${unseen}`,
      "private/scores/": `text/plain; charset=utf-8; ${unseen}`,
      "private/objects/": `application/json; ${unseen}`,
      "private/pages/": `application/gzip; ${unseen}`,
      "private/ids/": `application/octet-stream; ${unseen}`,
      "private/rows/": `application/octet-stream; ${unseen}`,
      "private/origins/": `application/octet-stream; ${unseen}`,
      "private/sources/": `application/json; ${unseen}`,
      "private/words/": `application/octet-stream; ${unseen}`,
      "private/segments/": `application/octet-stream; ${unseen}`,
      "public/api/v1/": stable,
      "public/api/v1/scores/": stable,
      "public/log/tile/0/000.p/": "application/octet-stream; public, max-age=31536000, immutable",
      "public/log/tile/entries/000.p/": "application/octet-stream; public, max-age=31536000, immutable",
      "public/": `text/html; charset=utf-8; ${shortly}`,
      "public/site/": `text/css; charset=utf-8; ${shortly}`,
      "public/objects/": "application/json; public, max-age=31536000, immutable",
    });
  });

  test("that reads to nobody any more is an error of the service's own", async () => {
    expect((await proxy.get("/api/v1/scores/aave")).status).toBe(200);
    await letNobodyRead(environment!, location);
    const refused = await read(layout.stableScoreList);
    expect(refused.status).toBe(403);
    expect(refused.text).toContain("<Code>AccessDenied</Code>");
    // What the proxy has in memory, it still serves; this one it has not.
    expect((await proxy.get("/api/v1/scores/aave")).status).toBe(200);
    const answer = await proxy.get("/api/v1/scores/curve.fi");
    expect([answer.status, problemOf(answer).code]).toEqual([502, "UPSTREAM_ERROR"]);
    expect(answer.text).not.toMatch(/<|AccessDenied|403|rgw|tx0/);
    expect(JSON.stringify(answer.headers)).not.toMatch(/amz|rgw|tx0/i);
    await letCdnRead(environment!, location);
    expect((await proxy.get("/api/v1/scores/curve.fi")).status).toBe(200);
  });
});

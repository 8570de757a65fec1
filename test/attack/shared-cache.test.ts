import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startTestProxy, type TestProxy } from "../helpers/http/proxy.ts";
import { type Answer, bearer, type Call, call, outcome, until } from "../helpers/http/proxy-client.ts";
import { publishArchive } from "../helpers/publish/records.ts";
import { findNginx, type Nginx, startNginx } from "../helpers/servers/nginx.ts";

/**
 * Starts a shared cache in front of a server on a loopback port, misconfigured by somebody who thinks only of
 * addresses. Its key is host and target, and it keeps answers for ten minutes when the server says nothing about
 * caching. It ignores the server's headers that `ignore` names.
 */
function startSharedCache(program: string, server: number, { gzip = false, ignore = [] as string[] } = {}) {
  return startNginx(
    program,
    (port) => `
      proxy_cache_path cache keys_zone=shared:1m;
      server {
        listen 127.0.0.1:${port};
        gzip ${gzip ? "on" : "off"};
        gzip_types application/json application/problem+json;
        gzip_min_length 1;
        location / {
          proxy_pass http://127.0.0.1:${server};
          proxy_http_version 1.1;
          proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
          proxy_cache shared;
          proxy_cache_key $host$request_uri;
          proxy_cache_valid any 10m;
          proxy_cache_use_stale error timeout http_500 http_502 http_503 http_504;
          ${ignore.length > 0 ? `proxy_ignore_headers ${ignore.join(" ")};` : ""}
          add_header X-Cache $upstream_cache_status always;
        }
      }`,
  );
}

const nginx = findNginx();
const archive = "/api/v1/markets/historical?pageSize=20";
const list = "/api/v1/scores";
const paid = /00000000-0000-4000|resolvedOutcome/;
const left = (answer: Answer) => Number(answer.headers["x-ratelimit-remaining"]);

/** Ways to ask for the same thing that a cache may take for one. */
const variants: Call[] = [
  {},
  { method: "HEAD" },
  { headers: { "accept-encoding": "gzip" } },
  { headers: { accept: "text/html" } },
  { headers: { range: "bytes=0-99" } },
  { headers: { "if-none-match": "*" } },
  { headers: { "cache-control": "only-if-cached" } },
  { headers: { "x-forwarded-host": "other.test" } },
  { headers: { "x-original-url": list, "x-rewrite-url": list } },
  { headers: { "x-http-method-override": "HEAD" } },
];

describe.skipIf(!nginx).each([
  { name: "as it is", options: {} },
  { name: "that compresses", options: { gzip: true } },
  { name: "that ignores Vary", options: { ignore: ["Vary"] } },
  { name: "that ignores Cache-Control and Expires", options: { ignore: ["Cache-Control", "Expires"] } },
])("a shared cache $name, keyed by address alone", ({ name, options }) => {
  let proxy: TestProxy;
  let cache: Nginx;
  beforeAll(async () => {
    proxy = await startTestProxy({ empty: true, trustProxy: { hops: 1 } });
    cache = await startSharedCache(nginx!, proxy.port, options);
  });
  afterAll(async () => {
    await cache?.stop();
    await proxy?.stop();
  });
  const get = (path: string, how?: Call) => call(cache.port, path, how);
  // A cache that was told to keep private answers keeps these too: what follows from heeding them cannot hold there.
  const whereHeeded: typeof test | undefined = name.includes("Cache-Control") ? undefined : test;

  whereHeeded?.("keeps no error, also not that of an empty store", async () => {
    expect(outcome(await get(`${list}/aave`))).toBe("503 SNAPSHOT_UNAVAILABLE");
    expect(outcome(await get(list))).toBe("503 SNAPSHOT_UNAVAILABLE");
    await publishArchive(proxy.storage);
    await until("the proxy to be ready", async () => (await proxy.get("/readyz")).status === 200);
    expect(outcome(await get(`${list}/aave`))).toBe("200");
    expect(outcome(await get(list))).toBe("200");
    const key = await proxy.issue({ plan: "developer", owner: "dev" });
    const errors: [string, Call][] = [
      ["/nothing", {}],
      [`${list}/none`, {}],
      [`${list}?x=1`, {}],
      [archive, {}],
      [archive, { headers: bearer(key) }],
      [list, { headers: { "x-api-key": "wrong" } }],
      ["/api/v1/ws/scores", {}],
    ];
    for (const [path, how] of errors) {
      const [first, second] = [await get(path, how), await get(path, how)];
      expect(first.status, path).toBeGreaterThan(399);
      expect(second.headers["x-request-id"]).not.toBe(first.headers["x-request-id"]);
    }
  });

  test("gives no byte of the archive to anybody without the plan", async () => {
    await publishArchive(proxy.storage);
    const [acme, other] = [await proxy.issue(), await proxy.issue({ owner: "other", quota: 500 })];
    const developer = await proxy.issue({ plan: "developer", owner: "d" });
    for (const warm of variants) {
      const answer = await get(archive, { ...warm, headers: { ...warm.headers, ...bearer(acme) } });
      expect(answer.status).toBeLessThan(400);
      for (const variant of variants) {
        const anonymous = await get(archive, variant);
        expect([anonymous.status, paid.test(anonymous.text)]).toEqual([401, false]);
      }
      expect((await get(archive, { headers: { "x-api-key": developer } })).status).toBe(403);
      const second = await get(archive, { headers: bearer(other) });
      expect([second.status, second.headers["x-ratelimit-limit"]]).toEqual([200, "500"]);
      // One told to keep private answers may give them to whom they were for.
      if (!name.includes("Cache-Control")) expect(second.headers["x-cache"]).toBe("MISS");
    }
  });

  whereHeeded?.("serves public data as it is, to each his own counter", async () => {
    const key = await proxy.issue({ owner: "counted", quota: 1000 });
    for (const path of [list, `${list}/aave`, `${list}/constructor`]) {
      const direct = await proxy.get(path);
      for (const { headers = {} } of variants.filter((one) => !one.method)) {
        // The unkeyed headers come first, and must not change what the next one gets.
        await get(path, { headers });
        const before = left(await get(path));
        const keyed = await get(path, { headers: bearer(key) });
        const after = await get(path);
        expect([keyed.headers["x-ratelimit-limit"], after.headers["ratelimit-policy"]]).toEqual([
          "1000",
          '"free";q=1000;w=86400',
        ]);
        expect(left(after)).toBe(before - 1);
        expect(after.text).toBe(direct.text);
        expect(after.headers.etag).toBe(direct.headers.etag);
      }
    }
  });
});

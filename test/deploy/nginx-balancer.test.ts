import { once } from "node:events";
import { Agent, createServer, request, type ServerResponse } from "node:http";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ExportList } from "../../schemas/envelopes.ts";
import { exportNewest } from "../helpers/archive/exports.ts";
import { startTestProxy, type TestProxy } from "../helpers/http/proxy.ts";
import { bearer, call, raw, remaining, until } from "../helpers/http/proxy-client.ts";
import { publishArchive } from "../helpers/publish/records.ts";
import { findNginx, type Nginx, startBalancer } from "../helpers/servers/nginx.ts";
import { listenLocally } from "../helpers/servers/programs.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

const list = "/api/v1/scores";
const nginx = findNginx();

describe.skipIf(!nginx)("a load balancer", () => {
  test("goes on with a proxy whose answer it could not take, and takes a long head", async () => {
    const server = createServer(({ url = "" }, response) => {
      response.setHeader("x-long", "x".repeat(Number(url.slice(1)) * 1024)).end(url);
    });
    const port = await listenLocally(server);
    const balancer = await startBalancer(nginx!, [port, port]);
    const status = async (kibibytes: number) => (await call(balancer.port, `/${kibibytes}`)).status;
    for (let turn = 0; turn < 4; turn += 1)
      expect([await status(100), await status(1), await status(12)]).toEqual([502, 200, 200]);
    await balancer.stop();
    server.close();
  });
});

const folder = testFolder();
const [archive, changes, exportList] = ["historical", "changes", "exports"].map(
  (name) => `/api/v1/markets/${name}`,
) as [string, string, string];

describe("an answer behind the load balancer", () => {
  let proxy: TestProxy;
  let key: string;
  let balancer: Nginx | undefined;
  let since: string;
  let file: string;
  beforeAll(async () => {
    proxy = await startTestProxy({ trustProxy: { hops: 1 }, pollSeconds: 0.1 });
    key = await proxy.issue();
    const snapshotId = async () => String((await proxy.get("/readyz")).headers["x-snapshot-id"]);
    since = await snapshotId();
    await publishArchive(proxy.storage, { markets: 50 });
    await exportNewest(proxy.storage, folder);
    await until("the proxy to serve the newer snapshot", async () => (await snapshotId()) !== since);
    await until("the proxy to list the export", async () => {
      proxy.clock.now += 60_000;
      const { exports } = ExportList.parse((await get(exportList)).json());
      file = exports[0]?.files[0]?.url ?? "";
      return file !== "";
    });
    if (nginx) balancer = await startBalancer(nginx, [proxy.port, proxy.port]);
  });
  afterAll(async () => {
    await balancer?.stop();
    await proxy?.stop();
  });
  const get = (path: string, headers: Record<string, string> = {}) =>
    proxy.get(path, { headers: { ...bearer(key), ...headers } });

  test("that is sent as it is read tells nginx not to read ahead, and no other answer does", async () => {
    const told = async (path: string, headers: Record<string, string> = {}) => {
      const answer = await get(path, headers);
      expect([200, 206], answer.text).toContain(answer.status);
      return answer.headers["x-accel-buffering"];
    };
    for (const accept of ["application/x-ndjson", "text/csv", "text/*", "application/*;q=0.9, text/csv"])
      expect(await told(archive, { accept }), accept).toBe("no");
    expect(await told(`${changes}?since=${since}`)).toBe("no");
    expect(await told(file)).toBe("no");
    expect(await told(file, { range: "bytes=0-9" })).toBe("no");
    for (const path of [archive, exportList, "/api/v1/scores", "/api/v1/markets/facets?by=tier"])
      expect(await told(path), path).toBe(undefined);
  });

  test.skipIf(!nginx)(
    "comes whole through nginx, and is refused where its end could not be told",
    async () => {
      const port = balancer!.port;
      const whole = await call(port, archive, { headers: { ...bearer(key), accept: "text/csv" } });
      expect(whole.headers).toMatchObject({ "transfer-encoding": "chunked", "x-count": "50" });
      expect(whole.headers["x-accel-buffering"]).toBe(undefined);
      const old = (path: string, ...accept: string[]) => {
        const lines = [`GET ${path} HTTP/1.0`, "Host: x", `x-api-key: ${key}`];
        return raw(port, [...lines, ...accept.map((each) => `Accept: ${each}`), "", ""].join("\r\n"));
      };
      const ndjson = "application/x-ndjson";
      for (const accept of [
        [ndjson],
        ["text/csv"],
        ["TEXT/CSV"],
        ["text/*"],
        ["text/*;q=0.1, image/png"],
        ["text/html", ndjson],
        ["application/x-ndjson;q=0.9, application/json;q=0.8"],
        ["application/json;q=0, application/*;q=0.9"],
        ["application/json;q=0.1", "application/x-ndjson;q=0.2"],
      ])
        expect(await old(archive, ...accept), accept.join()).toMatch(/^HTTP\/1\.1 400 [\s\S]*"BAD_REQUEST"/);
      for (const path of [`${changes}?since=${since}`, `${changes}?since=${since}&skip=1`])
        expect(await old(path, "*/*"), path).toMatch(/^HTTP\/1\.1 400 [\s\S]*"BAD_REQUEST"/);
      for (const [path, accept] of [
        [archive, "*/*"],
        [archive, "application/json"],
        [file, "*/*"],
        ["/api/v1/scores", ndjson],
      ] as const)
        expect(await old(path, accept), path).toMatch(/^HTTP\/1\.1 200 [\s\S]*\r\ncontent-length: \d/i);
    },
  );

  test.skipIf(!nginx)("a request with a body reaches the proxy over HTTP/1.0, too", async () => {
    const body = JSON.stringify({ slugs: ["aave"] });
    const head = ["POST /api/v1/scores/batch HTTP/1.0", "Host: x", "Content-Type: application/json"];
    const answer = await raw(
      balancer!.port,
      [...head, `Content-Length: ${body.length}`, "", body].join("\r\n"),
    );
    expect(answer).toMatch(/^HTTP\/1\.1 200 [\s\S]*"aave"/);
  });

  test.skipIf(!nginx)("is counted to its client, whatever that claims of its address", async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1, localAddress: "127.0.0.4" });
    const claims = [
      ["X-Forwarded-For", "192.0.2.1"],
      ["X-Forwarded-For", "127.0.0.5"],
      ["X-Forwarded-For", "192.0.2.1, 192.0.2.2,"],
      ["X-Forwarded-For", "192.0.2.1", "X-Forwarded-For", "192.0.2.3"],
      ["X-Forwarded-For", ""],
      ["x-forwarded-for", "rubbish\t, ::1"],
      ["Forwarded", "for=192.0.2.9", "X-Real-IP", "192.0.2.9", "X_Forwarded_For", "192.0.2.9"],
      ["Connection", "X-Forwarded-For", "X-Forwarded-For", "192.0.2.4"],
    ];
    let left = 1000;
    for (const headers of [...claims, ...claims]) {
      left -= 1;
      expect(remaining(await call(balancer!.port, list, { headers, agent })), headers.join(" ")).toBe(left);
    }
    agent.destroy();
  });

  test.skipIf(!nginx)("reaches the client line by line", async () => {
    let waiting: ServerResponse | undefined;
    const server = createServer((_, response) => {
      waiting = response;
      response.writeHead(200, { "X-Accel-Buffering": "no" }).write("first\n");
    });
    const port = await listenLocally(server);
    const through = await startBalancer(nginx!, [port, port]);
    for (const path of [archive, changes, file, "/other"]) {
      const asked = request({ port: through.port, host: "127.0.0.1", path, agent: false }).end();
      const [response] = await once(asked, "response");
      // Nothing else comes before this has arrived, so nginx must not wait for it.
      const [chunk] = await once(response, "data");
      expect(String(chunk)).toBe("first\n");
      waiting!.end("last\n");
      const [rest] = await once(response, "data");
      expect(String(rest)).toBe("last\n");
      response.destroy();
    }
    await through.stop();
    server.close();
  });
});

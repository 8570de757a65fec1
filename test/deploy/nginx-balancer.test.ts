import { once } from "node:events";
import { Agent, createServer, request, type ServerResponse } from "node:http";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ExportList } from "../../schemas/envelopes.ts";
import { exportNewest } from "../helpers/archive/exports.ts";
import { takenUp } from "../helpers/http/live-feed.ts";
import { startTestProxy, type TestProxy } from "../helpers/http/proxy.ts";
import { bearer, call, raw, remaining, until } from "../helpers/http/proxy-client.ts";
import { publishArchive } from "../helpers/publish/records.ts";
import { findNginx, type Nginx, startBalancer } from "../helpers/servers/nginx.ts";
import { type LocalServer, serveLocally } from "../helpers/servers/programs.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

const list = "/api/v1/scores";
const [archive, changes, exportList] = ["historical", "changes", "exports"].map(
  (name) => `/api/v1/markets/${name}`,
) as [string, string, string];
const nginx = findNginx();

describe.skipIf(!nginx)("behind the load balancer", () => {
  const folder = testFolder();
  let proxy: TestProxy;
  let key: string;
  let balancer: Nginx;
  let since: string;
  let file: string;
  /** In the place of a proxy: below /long/N it answers with a long head, and else with a line that more follows. */
  let other: LocalServer;
  let waiting: ServerResponse;
  let ofOther: Nginx;
  beforeAll(async () => {
    proxy = await startTestProxy({ trustProxy: { hops: 1 }, pollSeconds: 0.1 });
    key = await proxy.issue();
    since = String((await proxy.get("/readyz")).headers["x-snapshot-id"]);
    const { snapshotId } = await publishArchive(proxy.storage, { markets: 50 });
    await exportNewest(proxy.storage, folder);
    await takenUp(proxy, snapshotId);
    await until("the proxy to list the export", async () => {
      proxy.clock.now += 60_000;
      const answer = await proxy.get(exportList, { headers: bearer(key) });
      file = ExportList.parse(answer.json()).exports[0]?.files[0]?.url ?? "";
      return file !== "";
    });
    balancer = await startBalancer(nginx!, [proxy.port, proxy.port]);
    const server = createServer(({ url = "" }, response) => {
      const [, kibibytes] = /^\/long\/(\d+)$/.exec(url) ?? [];
      waiting = response;
      if (kibibytes) response.setHeader("x-long", "x".repeat(Number(kibibytes) * 1024)).end();
      else response.writeHead(200, { "X-Accel-Buffering": "no" }).write("first\n");
    });
    other = await serveLocally(server);
    ofOther = await startBalancer(nginx!, [other.port, other.port]);
  });
  afterAll(async () => {
    for (const server of [balancer, ofOther, other, proxy]) await server?.stop();
  });

  test("others go on with a proxy whose answer it could not take, and it takes a long head", async () => {
    const status = async (kibibytes: number) => (await call(ofOther.port, `/long/${kibibytes}`)).status;
    for (let turn = 0; turn < 4; turn += 1)
      expect([await status(100), await status(1), await status(12)]).toEqual([502, 200, 200]);
  });

  test("an answer that is sent as it is read is not read ahead, and refused where its end could not be told", async () => {
    const [ndjson, csv] = ["application/x-ndjson", "text/csv"];
    // Whether nginx is told not to read ahead, and the status of the same request over HTTP/1.0.
    const [streamed, whole] = [
      [true, "400"],
      [false, "200"],
    ] as const;
    for (const [path, accept, wanted] of [
      [archive, ndjson, streamed],
      [archive, "TEXT/CSV", streamed],
      [archive, "text/*", streamed],
      [archive, "text/*;q=0.1, image/png", streamed],
      [archive, `text/html\r\nAccept: ${ndjson}`, streamed],
      [archive, "application/*;q=0.9, text/csv", streamed],
      [archive, `${ndjson};q=0.9, application/json;q=0.8`, streamed],
      [archive, "application/json;q=0, application/*;q=0.9", streamed],
      [archive, `application/json;q=0.1\r\nAccept: ${ndjson};q=0.2`, streamed],
      [`${changes}?since=${since}`, "*/*", streamed],
      [file, "*/*", [true, "200"]],
      [archive, "*/*", whole],
      [archive, "application/json", whole],
      [list, ndjson, whole],
      [exportList, csv, whole],
      ["/api/v1/markets/facets?by=tier", "*/*", whole],
    ] as const) {
      const fields = `Host: x\r\nX-Api-Key: ${key}\r\nConnection: close\r\nAccept: ${accept}`;
      const direct = await raw(proxy.port, `GET ${path} HTTP/1.1\r\n${fields}\r\n\r\n`);
      const old = await raw(balancer.port, `GET ${path} HTTP/1.0\r\n${fields}\r\n\r\n`);
      expect(direct).toMatch(/^HTTP\/1\.1 200 /);
      const refused = /^HTTP\/1\.1 (?:(400) [\s\S]*"BAD_REQUEST"|(200) [\s\S]*\r\ncontent-length: \d)/i.exec(
        old,
      );
      const told = [/\r\nx-accel-buffering: no\r\n/i.test(direct), refused?.[1] ?? refused?.[2]];
      expect([path, accept, told]).toEqual([path, accept, wanted]);
    }
    const answer = await call(balancer.port, archive, { headers: { ...bearer(key), accept: csv } });
    expect(answer.headers).toMatchObject({ "transfer-encoding": "chunked", "x-count": "50" });
    expect(answer.headers["x-accel-buffering"]).toBe(undefined);
  });

  test("a request with a body reaches the proxy over HTTP/1.0, too", async () => {
    const body = JSON.stringify({ slugs: ["aave"] });
    const head = ["POST /api/v1/scores/batch HTTP/1.0", "Host: x", "Content-Type: application/json"];
    const answer = await raw(
      balancer.port,
      [...head, `Content-Length: ${body.length}`, "", body].join("\r\n"),
    );
    expect(answer).toMatch(/^HTTP\/1\.1 200 [\s\S]*"aave"/);
  });

  test("a request is counted to its client, whatever that claims of its address", async () => {
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
      expect(remaining(await call(balancer.port, list, { headers, agent })), headers.join(" ")).toBe(left);
    }
    agent.destroy();
  });

  test("an answer reaches the client line by line", async () => {
    for (const path of [archive, changes, file, "/other"]) {
      const asked = request({ port: ofOther.port, host: "127.0.0.1", path, agent: false }).end();
      const [response] = await once(asked, "response");
      // Nothing else comes before this has arrived, so nginx must not wait for it.
      const [chunk] = await once(response, "data");
      expect(String(chunk)).toBe("first\n");
      waiting.end("last\n");
      const [rest] = await once(response, "data");
      expect(String(rest)).toBe("last\n");
      response.destroy();
    }
  });
});

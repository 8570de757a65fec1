import { spawnSync } from "node:child_process";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { connect, createServer as createTcpServer } from "node:net";
import { join } from "node:path";
import { pipeline } from "node:stream";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { Request, Response } from "../../proxy/exchange.ts";
import { cdnOrigin } from "../../proxy/origin/origin.ts";
import { sha256 } from "../../snapshots/store/layout.ts";
import { type FaultyOrigin, startFaultyOrigin } from "../helpers/http/faulty-origin.ts";
import { startTestProxy, type TestProxy } from "../helpers/http/proxy.ts";
import { call } from "../helpers/http/proxy-client.ts";
import { scriptProcess } from "../helpers/publish/commands.ts";
import { writePlainSources } from "../helpers/publish/sample-sources.ts";
import { findNode, freePort, listenLocally, nodeOptions, serveLocally } from "../helpers/servers/programs.ts";
import { type SmallS3, startSmallS3 } from "../helpers/store/small-s3.ts";
import { memoryStorage } from "../helpers/store/storages.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

const folder = testFolder();
const objects = new Map<string, Buffer>();
const body = Buffer.from("{}");
let service: TestProxy;
let s3: SmallS3;
let cdn: FaultyOrigin;
let forward: Awaited<ReturnType<typeof startForwardProxy>>;
beforeAll(async () => {
  service = await startTestProxy({ pollSeconds: 0.1 });
  await writeFile(join(folder, "key"), `${await service.issue()}\n`);
  await writePlainSources(join(folder, "sources"), 20);
  s3 = await startSmallS3(memoryStorage(objects));
  cdn = await startFaultyOrigin(async () => body);
  forward = await startForwardProxy({
    "service.test": service.port,
    "s3.test": Number(new URL(s3.environment.AWS_ENDPOINT_URL_S3).port),
    "cdn.test": Number(cdn.url.port),
  });
});
afterAll(async () => {
  await forward?.stop();
  await cdn?.stop();
  await s3?.stop();
  await service?.stop();
});
afterEach(() => {
  objects.clear();
  forward.asked.length = 0;
});

/**
 * Starts a forward proxy, which alone knows some hosts, with these loopback ports. It tells the host of each tunnel or
 * connection.
 */
async function startForwardProxy(hosts: Record<string, number>) {
  const asked: string[] = [];
  const server = createTcpServer((socket) => {
    socket.once("data", (first) => {
      const [, method, host = ""] = /^(\S+) (?:http:\/\/)?([^:/ ]+)/.exec(String(first)) ?? [];
      asked.push(host);
      const port = hosts[host];
      if (port === undefined) return void socket.end("HTTP/1.1 502 Bad Gateway\r\n\r\n");
      const target = connect(port, "127.0.0.1");
      if (method === "CONNECT") socket.write("HTTP/1.1 200 OK\r\n\r\n");
      else target.write(first);
      pipeline(socket, target, socket, () => {});
    });
  });
  const { url, stop } = await serveLocally(server);
  return { environment: { http_proxy: url, https_proxy: url, no_proxy: "" }, asked, stop };
}

const publish = (store: string, env: NodeJS.ProcessEnv, sources = "sources") =>
  scriptProcess("snapshot", ["publish", "--sources", sources, "--store", store], { from: folder, env });
const sync = (url: string, copy: string, env: NodeJS.ProcessEnv) =>
  scriptProcess("sync", ["--url", url, "--key-file", "key", "--to", copy], { from: folder, env });

describe("a forward proxy", () => {
  test("is used by sync", async () => {
    const { code, stderr } = await sync("http://service.test", "copy", forward.environment);
    expect({ code, stderr }).toMatchObject({ code: 0 });
    expect(new Set(forward.asked)).toEqual(new Set(["service.test"]));
  });

  test("is used for a store in S3", async () => {
    const env = { ...forward.environment, AWS_ENDPOINT_URL_S3: "http://s3.test" };
    const { code, stderr } = await publish("s3://bucket/store", env);
    expect({ code, stderr }).toMatchObject({ code: 0 });
    expect(new Set(forward.asked)).toEqual(new Set(["s3.test"]));
    expect(objects.has("store/checked.json")).toBe(true);
  });

  test("is used by the proxy for the objects of its origin", async () => {
    const origin = cdnOrigin(new URL("http://cdn.test"), { proxyEnv: forward.environment });
    const server = createServer(async (request, response) => {
      Object.assign(response, { locals: {} });
      const object = { hash: sha256(body), bytes: body.length };
      response.end(await origin.fetch(request as Request, response as Response, object));
    });
    expect((await call(await listenLocally(server), "/")).text).toBe("{}");
    expect(forward.asked).toEqual(["cdn.test"]);
    origin.close();
    server.close();
  });

  test("is not used for the hosts of NO_PROXY, also where nobody has a home", async () => {
    const nobody = `http://127.0.0.1:${await freePort()}`;
    const direct = { http_proxy: nobody, no_proxy: "127.0.0.1" };
    expect(await sync(`http://127.0.0.1:${service.port}`, "direct", direct)).toMatchObject({ code: 0 });
    for (const name of await readdir(join(folder, "sources"), { recursive: true }))
      if (name.endsWith(".parquet"))
        objects.set(`sources/${name}`, await readFile(join(folder, "sources", name)));
    // A user without HOME and an entry in passwd publishes from S3 to S3, with a folder for the sources.
    const homeless = `import os from "node:os"; import { syncBuiltinESMExports } from "node:module";
      const { homedir } = os;
      os.homedir = () => { if (process.env.HOME === undefined) throw new Error("ENOENT"); return homedir(); };
      syncBuiltinESMExports();`;
    const env = {
      ...{ ...direct, ...s3.environment, HOME: undefined, XDG_CACHE_HOME: join(folder, "cache") },
      NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(homeless)}`,
    };
    expect(await publish("s3://bucket/store", env, "s3://bucket/sources")).toMatchObject({ code: 0 });
  });

  test("whose address is none is told in a line", async () => {
    expect(await sync("http://service.test", "bad", { http_proxy: "proxy.test:3128" })).toEqual({
      code: 1,
      stdout: "",
      stderr: "http_proxy is no address of a proxy, such as http://proxy.example:3128.\n",
    });
  });

  const node22 = findNode("22");
  test.skipIf(!node22)("that Node 22 heeds only when it is told so, is told in a line", () => {
    const told = (env: NodeJS.ProcessEnv) =>
      spawnSync(node22!, [...nodeOptions, "-e", ""], { env, encoding: "utf8" }).stderr;
    const { http_proxy } = forward.environment;
    expect(told({ http_proxy })).toMatch(/^http_proxy is set, .* with NODE_USE_ENV_PROXY=1 alone\.\n$/);
    expect(told({ http_proxy, NODE_USE_ENV_PROXY: "1" })).not.toContain("is set");
    expect(told({})).toBe("");
  });
});

import { once } from "node:events";
import { mkdir, mkdtemp, readdir, rm } from "node:fs/promises";
import { createServer } from "node:http";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { listen, openQuota } from "../../proxy/start.ts";
import { directoryStorage } from "../../snapshots/store/backends/directory.ts";
import { call, outcome, until } from "../helpers/http/proxy-client.ts";
import { type ProxyCommand, startProxyCommand } from "../helpers/http/proxy-command.ts";
import { publishArchive } from "../helpers/publish/records.ts";
import { findNode, serveLocally } from "../helpers/servers/programs.ts";

let directory: string;
let proxies: ProxyCommand[];
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "prs-process-"));
  proxies = [];
});
afterEach(async () => {
  for (const proxy of proxies) await proxy.kill();
  await rm(directory, { recursive: true, force: true });
});

function start(env: Record<string, string>, node?: string): ProxyCommand {
  const proxy = startProxyCommand(directory, env, node);
  proxies.push(proxy);
  return proxy;
}

test("what a server cannot listen on or count in is refused by its setting", async () => {
  const { port, stop } = await serveLocally(createServer());
  const counted = { directory, log: { warn() {} } };
  const limits = { quotaSeconds: 1, quotaOpenSeconds: 1 };
  await expect(listen(createServer(), { host: "127.0.0.1", port }, "METRICS_PORT")).rejects.toThrow(
    `METRICS_PORT ${port} is taken by another process; set METRICS_PORT to a free one.`,
  );
  await expect(listen(createServer(), { host: "192.0.2.1", port: 0 })).rejects.toThrow(
    "HOST 192.0.2.1 cannot be listened on: ",
  );
  await expect(openQuota({ quotaStore: "." }, counted, limits)).rejects.toThrow(
    "QUOTA_STORE cannot be used: ",
  );
  await stop();
});

describe("npm run proxy", () => {
  const nodes = { "this Node": process.execPath, "the oldest": findNode("22") };
  const does =
    "starts without a store, takes up the first snapshot, counts, keeps its files with the user, ends with 0";
  test.for(Object.entries(nodes))(`with %s ${does}`, async ([, node], { skip }) => {
    skip(!node);
    const proxy = start({ POLL_SECONDS: "1", SHUTDOWN_SECONDS: "60" }, node);
    const port = await proxy.listening();
    expect(outcome(await call(port, "/readyz"))).toBe("503 SNAPSHOT_UNAVAILABLE");
    const warning = `there is no store at ${join(directory, "store")}`;
    await until("the warning", () => proxy.output.out.includes(warning));
    await publishArchive(directoryStorage(join(directory, "store")));
    await until("the proxy to be ready", async () => (await call(port, "/readyz")).status === 200);
    expect(proxy.output.out.split(warning)).toHaveLength(2);
    expect(outcome(await call(port, "/api/v1/scores"))).toBe("200");
    expect(await readdir(join(directory, ".local"))).toContain("quota.sqlite");

    // A connection without a request under way is not waited for.
    const idle = connect(port, "127.0.0.1");
    idle.write("GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n");
    expect(String(await once(idle, "data"))).toMatch(/^HTTP\/1\.1 200 /);
    proxy.child.kill("SIGINT");
    expect(await proxy.ended).toBe(0);
    expect(proxy.output.out).toContain("draining");
    idle.destroy();
  });

  // What else ends the start is in test/scripts/workers.test.ts.
  test("a bad value ends it with 1 and names the variable, as does a quota file that cannot be", async () => {
    const bad = start({ POLL_SECONDS: "often" });
    expect([await bad.ended, bad.output.err]).toEqual([
      1,
      "POLL_SECONDS must be an integer from 1 to 3600.\n",
    ]);
    await mkdir(join(directory, "folder"));
    const file = start({ QUOTA_STORE: "folder" });
    expect(await file.ended).toBe(1);
    expect(file.output.err).toMatch(/^QUOTA_STORE cannot be used/);
  });
});

import { once } from "node:events";
import { mkdir, readdir } from "node:fs/promises";
import { createServer } from "node:http";
import { connect } from "node:net";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { listen, openQuota } from "../../proxy/start.ts";
import { directoryStorage } from "../../snapshots/store/backends/directory.ts";
import { call, outcome, until } from "../helpers/http/proxy-client.ts";
import { startProxyCommand } from "../helpers/http/proxy-command.ts";
import { publishArchive } from "../helpers/publish/records.ts";
import { findNode, serveLocally } from "../helpers/servers/programs.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

const folder = testFolder();

test("what a server cannot listen on or count in is refused by its setting", async () => {
  const { port, stop } = await serveLocally(createServer());
  const counted = { directory: folder, log: { warn() {} } };
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

// What ends the start is in test/scripts/workers.test.ts.
describe("npm run proxy", () => {
  const nodes = { "this Node": process.execPath, "the oldest": findNode("22") };
  const does =
    "starts without a store, takes up the first snapshot, counts, keeps its files with the user, ends with 0";
  test.for(Object.entries(nodes))(`with %s ${does}`, async ([name, node], { skip, onTestFinished }) => {
    skip(!node);
    const directory = join(folder, name);
    await mkdir(directory);
    const proxy = startProxyCommand(directory, { POLL_SECONDS: "1", SHUTDOWN_SECONDS: "60" }, node);
    onTestFinished(proxy.kill);
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
});

import { readdir } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { listen, openQuota } from "../../proxy/start.ts";
import { directoryStorage } from "../../snapshots/store/backends/directory.ts";
import { call, open, outcome, until } from "../helpers/http/proxy-client.ts";
import { startProxyCommand } from "../helpers/http/proxy-command.ts";
import { publishArchive } from "../helpers/publish/records.ts";
import { findNode } from "../helpers/servers/programs.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

const folder = testFolder();

test("what a server cannot listen on or count in is refused by its setting", async () => {
  const counted = { directory: folder, log: { warn() {} } };
  const limits = { quotaSeconds: 1, quotaOpenSeconds: 1 };
  await expect(listen(createServer(), { host: "192.0.2.1", port: 0 })).rejects.toThrow(
    "HOST 192.0.2.1 cannot be listened on: ",
  );
  await expect(openQuota({ quotaStore: "." }, counted, limits)).rejects.toThrow(
    "QUOTA_STORE cannot be used: ",
  );
});

// What ends the start, as a port that is taken, is in test/scripts/workers.test.ts, which runs this Node.
test("npm run proxy with the oldest Node starts without a store, takes up the first snapshot, counts, keeps its files with the user, ends with 0", async () => {
  const proxy = startProxyCommand(folder, { POLL_SECONDS: "1", SHUTDOWN_SECONDS: "60" }, findNode("22"));
  onTestFinished(proxy.kill);
  const port = await proxy.listening();
  expect(outcome(await call(port, "/readyz"))).toBe("503 SNAPSHOT_UNAVAILABLE");
  const warning = `there is no store at ${join(folder, "store")}`;
  await until("the warning", () => proxy.output.out.includes(warning));
  await publishArchive(directoryStorage(join(folder, "store")));
  await until("the proxy to be ready", async () => (await call(port, "/readyz")).status === 200);
  expect(proxy.output.out.split(warning)).toHaveLength(2);
  expect(outcome(await call(port, "/api/v1/scores"))).toBe("200");
  expect(await readdir(join(folder, ".local"))).toContain("quota.sqlite");

  // A connection without a request under way is not waited for.
  const idle = open(port, "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n");
  await until("its answer", () => idle.received.startsWith("HTTP/1.1 200 "));
  proxy.child.kill("SIGINT");
  expect(await proxy.ended).toBe(0);
  expect(proxy.output.out).toContain("draining");
});

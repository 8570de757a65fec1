import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { expect, test } from "vitest";
import { redisQuota } from "../../../proxy/quota/redis.ts";
import { patient } from "../../helpers/http/proxy.ts";

test("a unit whose connection is lost before it is counted is refused then, and the loss is told", async () => {
  const again = Promise.withResolvers<string>();
  let connections = 0;
  const server = createServer((socket) => {
    connections += 1;
    if (connections > 1) again.resolve("not refused before the next connection");
    socket.on("data", (bytes) => {
      for (const command of bytes
        .toString("latin1")
        .split(/^\*\d+\r\n/m)
        .slice(1))
        if (command.includes("eval")) socket.resetAndDestroy();
        else socket.write(/hello/i.test(command) ? "-NOPROTO\r\n" : "+OK\r\n");
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const failed: string[] = [];
  const url = `redis://127.0.0.1:${port}`;
  const store = await redisQuota(url, patient.quotaSeconds, ({ message }) => failed.push(message));
  const taken = store.take("a", "2026-03-01", 1, 9).then(String, ({ message }: Error) => message);
  expect(await Promise.race([taken, again.promise])).toContain("max retries per request");
  expect(failed).toEqual(["Redis: read ECONNRESET"]);
  store.close();
  server.close();
});

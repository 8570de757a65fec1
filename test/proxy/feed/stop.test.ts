import { once } from "node:events";
import type { Socket } from "node:net";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { layout } from "../../../snapshots/store/layout.ts";
import { listenGreeted, rawListener, startFeedProxy } from "../../helpers/http/live-feed.ts";
import type { TestProxy } from "../../helpers/http/proxy.ts";
import { startProxyCommand } from "../../helpers/http/proxy-command.ts";
import { anotherOverS3 } from "../../helpers/http/proxy-served.ts";
import { bookOf, publishBook } from "../../helpers/publish/score-books.ts";

let proxy: TestProxy;
let key: string;
let first: string;
beforeEach(async () => {
  ({ proxy, key, first } = await startFeedProxy(bookOf({ aave: 500 })));
  return proxy.stop;
});

/** A client that answers no close. */
function dumbClient(port: number, search?: string): Socket {
  const socket = rawListener(port, key, search);
  onTestFinished(() => void socket.destroy());
  return socket;
}

describe("a proxy that stops", () => {
  test("ends as a process on SIGTERM, with clients that answer and clients that do not", async () => {
    const command = startProxyCommand(proxy.directory, { POLL_SECONDS: "1" });
    onTestFinished(command.kill);
    const port = await command.listening();
    const listener = await listenGreeted(port, key);
    await once(dumbClient(port), "data");
    command.child.kill("SIGTERM");
    expect(await listener.closed).toBe(1001);
    expect(await command.ended).toBe(0);
    expect(command.output.out + command.output.err).not.toContain(key);
  });

  test("also lets go of a client that gets in while it stops", async () => {
    await publishBook(proxy.storage, bookOf({ aave: 501 }));
    // The log is read back to the first commit, and that one is not to be had at once.
    const asked = Promise.withResolvers<void>();
    const answered = Promise.withResolvers<undefined>();
    const another = await anotherOverS3(proxy, (_, name) => {
      if (name !== layout.commit(1)) return undefined;
      asked.resolve();
      return answered.promise;
    });
    const dumb = dumbClient(another.port);
    await once(dumb, "data");
    const late = dumbClient(another.port, `?since=${first}`);
    await asked.promise;
    const ending = another.stop();
    // Cut off when its time to answer the close was over.
    await once(dumb.resume(), "close");
    answered.resolve(undefined);
    await once(late.resume(), "close");
    await ending;
  });
});

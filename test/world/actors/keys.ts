import { issueKey, revokeKey, rotateKey } from "../../../snapshots/keys/keys.ts";
import { hasCode } from "../../../snapshots/store/errors.ts";
import { must, Process } from "../kernel/kernel.ts";
import { Unreachable } from "../kernel/network.ts";
import type { Action } from "../plan.ts";
import type { KeysRead, Server, World } from "../world.ts";
import { ask } from "./asking.ts";
import { answerOf } from "./gate.ts";
import { keysIn } from "./keys-read.ts";
import { openProxy } from "./readers.ts";

const minute = 60_000;

/** Issues, revokes and rotates keys, as an operator does, and shows them to proxies, as their holders do. */
export async function issueAgain(world: World, process: Process, { choices }: Action) {
  const { kernel, issued } = world;
  const within = [10_000, 20 * minute, 2000 * minute][choices[0]! % 3]!;
  // One proxy at least looks into the store now and then.
  const proxy = new Process(`${process.name}-proxy`, process.draw, 0);
  const opened = await kernel.call(process, proxy, () => openProxy(world, proxy, choices[1]! % 2));
  for (let step = 0; step < 16; step += 1) {
    // Of two keys, so that much happens to each.
    const [id, key] = [...issued].slice(-2)[process.draw(Math.max(1, Math.min(2, issued.size)))] ?? [];
    const kind = process.draw(4);
    if (kind === 0 || id === undefined) await change(world, process, id, within);
    else if (kind === 1) await (opened && kernel.call(process, proxy, opened.look));
    else
      await ask(world, process, (server) => show(world, server, id, key!)).catch((error) => {
        if (!(error instanceof Unreachable)) throw error;
      });
    await kernel.wait(process, process.draw(within));
  }
  opened?.close();
}

async function change(world: World, process: Process, id: string | undefined, within: number) {
  const { kernel, store, issued, judge } = world;
  const [storage, now] = [store.of(process), new Date()];
  const later = () => process.draw(8 * within);
  try {
    const kind = id === undefined ? 2 : process.draw(4);
    // Often twice, the second time for an earlier end.
    if (kind % 3 === 0) await revokeKey(storage, id!, new Date(now.getTime() + process.draw(2) * later()));
    else {
      const expiresAt = process.draw(3) ? undefined : new Date(now.getTime() + later());
      const made =
        kind === 1
          ? await rotateKey(storage, id!, later(), now)
          : await issueKey(storage, { plan: "developer", owner: process.name, expiresAt }, now);
      if (made) issued.set(made.record.id, made.key);
    }
  } catch (error) {
    kernel.note(`${process.name} fails: ${error}`);
    // Its own first attempt took the id.
    const taken = /^key id [0-9a-f]+ is taken; try again$/.test((error as Error).message);
    const documented = taken || hasCode(error, "STORE_UNREACHABLE", "KEY_ENDED");
    must("every error is a documented one", documented || judge.thieves.size > 0, () => `${error}`);
  }
}

async function show(world: World, server: Server, id: string, key: string): Promise<void> {
  const { status } = await answerOf(world, server, "/api/v1/usage", { "x-api-key": key });
  const { read, process } = server;
  const told = () => `${id} is answered ${status} by ${process.name}`;
  const ended = ({ ends }: KeysRead) => (ends.get(id) ?? Number.POSITIVE_INFINITY) <= Date.now();
  if (!read) return must("nobody is served before the keys are read", status === 503, told);
  must("keys are served or refused", status === 200 || status === 401, told);
  must("no key is served that had ended", status === 401 || !ended(read), told);
  // What has been stored since the proxy read it may be known or not.
  const mayBeOver = world.judge.thieves.size > 0 || !read.known.has(id) || ended(keysIn(world.store));
  must("a key is served until it ends", status === 200 || mayBeOver, told);
  world.kernel.note(`${process.name} answers ${status} to ${id}`);
}

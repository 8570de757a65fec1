import { publicError } from "../../../proxy/reply/problem.ts";
import { type ErrorCode, Fault, isFault, isPublic } from "../../../schemas/errors.ts";
import {
  CorruptObjectError,
  hasCode,
  MissingObjectError,
  ObjectError,
} from "../../../snapshots/store/errors.ts";
import { StorageError } from "../../../snapshots/store/storage.ts";
import { must, type Process, Violation } from "../kernel/kernel.ts";
import { asked, Unreachable } from "../kernel/network.ts";
import type { Server, World } from "../world.ts";

/** Asks any of the proxies. */
export function ask<T>(world: World, process: Process, work: (server: Server) => Promise<T>): Promise<T> {
  const running = world.servers.filter((each) => each.process.state === "running");
  const server = running[process.draw(Math.max(1, running.length))];
  return asked(world.kernel, process, server?.process, () => work(server!));
}

/** Asks until there is an answer, a few times; undefined when there is none, or it is an error, a documented one. */
export async function insist<T>(
  world: World,
  process: Process,
  work: (server: Server) => Promise<T>,
  isDocumented: (code: ErrorCode) => boolean,
): Promise<T | undefined> {
  for (let tries = 0; tries < 3; tries += 1) {
    try {
      return await ask(world, process, work);
    } catch (error) {
      if (error instanceof Unreachable) continue;
      requireReadable(world, error);
      world.kernel.note(`${process.name} is told ${error}`);
      if (!isTold(error)) continue;
      const { code } = publicError(error);
      must("answers are as documented", isDocumented(code), () => `${process.name} is told ${error}`);
      return undefined;
    }
  }
  return undefined;
}

/** Whether a reader is told the message of an error. */
const isTold = (error: unknown): error is Fault =>
  error instanceof Fault && (isPublic(error.code) || isFault(error, "DAMAGED_LOG"));

/** What a reader may be told, beside what it asks for. */
export function requireReadable(world: World, error: unknown): void {
  if (error instanceof Violation) throw error;
  const isForked = hasCode(error, "FORKED_LOG");
  must("no log shows two faces", !isForked || world.judge.isForked, () => `${error}`);
  if (world.judge.thieves.size > 0 && (error instanceof ObjectError || isTold(error))) return;
  if (isTold(error) || error instanceof StorageError) {
    must("the log is whole", !isFault(error, "DAMAGED_LOG"), () => (error as Error).stack!);
    return;
  }
  // Another one is current by then, and was collected. A proxy that starts finds no whole one where the newest has too
  // few cosignatures for it.
  const newest = world.judge.commits.at(-1);
  const cause = error instanceof CorruptObjectError && error.cause ? error.cause : error;
  const gone = cause instanceof MissingObjectError && !newest?.reach.has(cause.key);
  must("every error is a documented one", gone, () => String((error as Error)?.stack ?? error));
}

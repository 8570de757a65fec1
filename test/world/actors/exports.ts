import type { AnyErrorCode, ErrorCode } from "../../../schemas/errors.ts";
import { exportSnapshot } from "../../../snapshots/maintain/export.ts";
import { listExports } from "../../../snapshots/read/catalog/exports.ts";
import { MissingObjectError } from "../../../snapshots/store/errors.ts";
import { must, type Process } from "../kernel/kernel.ts";
import type { Action } from "../plan.ts";
import type { Server, World } from "../world.ts";
import { insist } from "./asking.ts";
import { documented, publishOne, signingOf } from "./operator.ts";

/** Exports a snapshot, most often the newest one, which it may have published right before. */
export async function exportOnce(world: World, process: Process, action: Action) {
  const [, machine = 0, , which = 0, changes = 0, publishes = 0] = action.choices;
  if (publishes % 2 === 0) await publishOne(world, process, action);
  const target = which % 3 === 0 ? String(1 + (which % Math.max(1, world.judge.commits.length))) : undefined;
  const errors: AnyErrorCode[] = [
    "EXPORT_REFUSED",
    "SNAPSHOT_NOT_FOUND",
    "COLLECTED_MEANWHILE",
    "STORE_UNREACHABLE",
  ];
  // A collection may delete an old snapshot while it is read.
  const isGone = (error: Error) =>
    error instanceof MissingObjectError && !world.judge.commits.at(-1)?.reach.has(error.key);
  const work = async () =>
    exportSnapshot(world.store.of(process), target, {
      temporaryDirectory: `/world/${process.name}`,
      progress: () => {},
      // As few as make two files of two segments.
      maxTextBytes: 1,
      changes: changes % 2 === 0,
      signing: await signingOf(world, machine % 2),
    });
  await documented(world, process, errors, work, isGone);
}

/** Takes an export from one of the proxies. */
export async function takeExport(world: World, process: Process): Promise<void> {
  const choice = process.draw(4);
  const isDocumented = (code: ErrorCode) => code === "SNAPSHOT_NOT_FOUND" || world.judge.thieves.size > 0;
  const take = async (server: Server) => {
    const { exports } = await listExports(server.exports);
    const { snapshotId, files } = exports[choice % Math.max(1, exports.length)] ?? {};
    if (!snapshotId || !files) return undefined;
    const parts: Buffer[] = [];
    for (const { name, sha256, bytes } of files) {
      const file = await server.exports.open(snapshotId, name);
      must("a file is the one that was listed", file.hash === sha256, () => name);
      for await (const { text } of file.read({ offset: 0, bytes }).read()) parts.push(text);
    }
    return { snapshotId, text: String(Buffer.concat(parts)) };
  };
  const answer = await insist(world, process, take, isDocumented);
  if (!answer) return;
  const content = world.judge.contentOf(answer.snapshotId);
  const text = content.lines.map((line) => `${line}\n`).join("");
  must("an export agrees with the model", answer.text === text, () => `${content.name}: ${answer.text}`);
  world.kernel.note(`${process.name} has taken an export of ${content.lines.length}`);
}

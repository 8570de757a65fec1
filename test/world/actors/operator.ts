import { type AnyErrorCode, isFault } from "../../../schemas/errors.ts";
import type { Retention } from "../../../snapshots/maintain/commits.ts";
import { collectGarbage } from "../../../snapshots/maintain/gc.ts";
import { rollback } from "../../../snapshots/maintain/rollback.ts";
import type { Allowance } from "../../../snapshots/publish/guards.ts";
import { type PublishOptions, publish } from "../../../snapshots/publish/publish.ts";
import { hasCode } from "../../../snapshots/store/errors.ts";
import type { Signing } from "../../../snapshots/trust/log/believe.ts";
import { openCheckpointFile } from "../../../snapshots/trust/log/checkpoints.ts";
import { Witnesses } from "../../../snapshots/trust/witnesses.ts";
import { type Content, large, small } from "../contents.ts";
import { must, type Process } from "../kernel/kernel.ts";
import type { Action } from "../plan.ts";
import type { World } from "../world.ts";
import { key, policy } from "./witness.ts";

/** What a run may also end with where somebody else has changed the store. */
const ofTheft: readonly AnyErrorCode[] = [
  "UNTRUSTED_PREDECESSOR",
  "BROKEN_LOG",
  "CHECKPOINT_FILE",
  "CORRUPT_OBJECT",
  "MISSING_OBJECT",
];

/** What a commit may end with where others are at work, or the network fails. */
const ofCommit = ["COMMIT_LOST", "COLLECTED_MEANWHILE", "COMMIT_UNKNOWN", "STORE_UNREACHABLE"] as const;

/** Ends with one of these errors, or as it should. */
export async function documented(
  world: World,
  process: Process,
  codes: readonly AnyErrorCode[],
  work: () => Promise<unknown>,
  excused: (error: Error) => boolean = () => false,
) {
  try {
    await work();
    world.kernel.note(`${process.name} succeeds`);
  } catch (error) {
    if ((error as Error).name === "Violation") throw error;
    world.kernel.note(`${process.name} fails: ${error}`);
    must(
      "every error is a documented one",
      hasCode(error, ...codes) ||
        (world.judge.thieves.size > 0 && hasCode(error, ...ofTheft)) ||
        excused(error as Error),
      () => `${process.name}: ${(error as Error).stack}`,
    );
  }
}

/** How a machine signs; each remembers what it signed. */
export async function signingOf(world: World, machine: number): Promise<Signing> {
  if (!world.plan.signed) return {};
  const memory = await openCheckpointFile(`/world/machine-${machine}/checkpoint`);
  return { key, memory, ...(world.plan.witnessed && { witnesses: new Witnesses(policy) }) };
}

/** What differs between two contents, in the numbers that the guards ask for. */
function allowanceOf(before: Content | undefined, after: Content): Allowance {
  if (!before) return {};
  const versions = new Map(before.markets.map(({ id }, place) => [id, before.lines[place]]));
  const stays = after.markets.filter(({ id }) => versions.has(id)).length;
  const changed = after.markets.filter(
    ({ id }, place) => versions.has(id) && versions.get(id) !== after.lines[place],
  ).length;
  const gone = before.slugs.filter((slug) => !after.slugs.includes(slug)).length;
  return { removed: before.markets.length - stays + gone, changed, added: after.markets.length - stays };
}

/** Publishes one of the contents. */
export async function publishOne(world: World, process: Process, { choices }: Action) {
  const [which = 0, machine = 0, resume = 0] = choices;
  const { plan } = world;
  const content = (plan.large ? large : small)[which % plan.contents]!;
  world.judge.publishing.set(process, content);
  await documented(world, process, ["GUARD_REFUSED", "PUBLISHING_ON_HOLD", ...ofCommit], async () => {
    const options: PublishOptions = {
      storage: world.store.of(process),
      temporaryDirectory: "/world/tmp",
      now: () => new Date(),
      sources: async () => content.sources(),
      signing: await signingOf(world, machine % 2),
      resume: resume % 2 === 0,
      // Most operators have compared what they publish with what is current.
      allow: resume % 8 < 2 ? {} : allowanceOf(world.judge.commits.at(-1)?.content, content),
    };
    await publish(options).catch((error) => {
      if (!isFault(error, "GUARD_REFUSED")) throw error;
      return publish({ ...options, allow: error.extras.needed! });
    });
  });
}

export async function rollbackOnce(world: World, process: Process, { choices }: Action) {
  const [which = 0, machine = 0] = choices;
  const { commits } = world.judge;
  const current = commits.at(-1)?.commit.entry.snapshotId;
  // Most often the snapshot before.
  const before = commits.findLast(({ commit }) => commit.entry.snapshotId !== current)?.commit.entry.commit;
  const target = String((which % 4 > 0 && before) || 1 + (which % Math.max(1, commits.length)));
  await documented(world, process, ["ROLLBACK_REFUSED", "SNAPSHOT_NOT_FOUND", ...ofCommit], async () =>
    rollback(world.store.of(process), target, () => new Date(), {
      signing: await signingOf(world, machine % 2),
    }),
  );
}

const retentions: readonly Retention[] = [
  { keepHours: 0, keepCommits: 1 },
  { keepHours: 0, keepCommits: 0, keepChangesDays: 1 },
  { keepHours: 1, keepCommits: 1, keepChangesDays: 400 },
  { keepHours: 24, keepCommits: 2 },
  { keepHours: 0, keepCommits: 1, keepDaily: 2, keepMonthly: 2, keepChangesDays: 3 },
];

/** Collects garbage. */
export async function collectOnce(world: World, process: Process, { choices }: Action) {
  const retention = retentions[choices[0]! % retentions.length]!;
  const now = new Date();
  // A clock that is ahead by more refuses to work.
  const believed = world.kernel.now + Math.min(process.ahead, 3_600_000);
  world.judge.collecting.set(process, { ...retention, now: believed });
  const options = {
    ...retention,
    now,
    dryRun: false,
    signing: await signingOf(world, choices[0]! % 2),
  };
  // Another collection, which keeps less, gave a snapshot up before.
  const isGone = (error: Error) => {
    const [manifest] = /manifests\/[0-9a-f]+\.json/.exec(error.message) ?? [];
    return (
      hasCode(error, "CORRUPT_OBJECT", "MISSING_OBJECT") &&
      manifest !== undefined &&
      world.judge.givenUp.has(manifest)
    );
  };
  const work = () => collectGarbage(world.store.of(process), options);
  await documented(world, process, ["STORE_UNREACHABLE"], work, isGone);
}

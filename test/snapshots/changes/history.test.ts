import { gunzipSync } from "node:zlib";
import fc from "fast-check";
import { expect, test } from "vitest";
import { isFault } from "../../../schemas/errors.ts";
import type { HistoricalMarket } from "../../../schemas/records.ts";
import { changeObjects } from "../../../snapshots/changes/record.ts";
import { rollback } from "../../../snapshots/maintain/rollback.ts";
import type { StreamChunk } from "../../../snapshots/read/answer.ts";
import { Catalog } from "../../../snapshots/read/catalog/catalog.ts";
import { ChangesReader } from "../../../snapshots/read/changes/changes.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import { newestCommit, readCommit } from "../../../snapshots/store/log/commits.ts";
import { inArchiveOrder, market, publishRecords } from "../../helpers/publish/records.ts";
import { memoryStorage } from "../../helpers/store/storages.ts";

/** A market of a history: which one, when it was resolved, and how it was corrected. */
interface Choice {
  index: number;
  hour: number;
  version: number;
}

/** Labels and texts that could be taken for something else in a line of an answer. */
const hostile = [
  ...["Yes", "]}", '"}\n{"op":"delete"', "a\\nb", ",\n"],
  ...["\u2028", "é", "e\u0301", "__proto__", '{"id":"'],
];

/** What happens in a history. */
type Event =
  | { kind: "publish"; edits: Choice[]; dropped: number[] }
  | { kind: "rollback"; to: number }
  | { kind: "collect"; commit: number; records: boolean };

/** Few markets and few times, so that they meet. */
const edit = fc.record({ index: fc.nat(160), hour: fc.nat(12), version: fc.nat(3) });
const publish = fc.record({
  kind: fc.constant("publish" as const),
  edits: fc.array(edit, { maxLength: 40, size: "max" }),
  dropped: fc.array(fc.nat(160), { maxLength: 12, size: "max" }),
});
const back = fc.record({ kind: fc.constant("rollback" as const), to: fc.nat(20) });
const collect = fc.record({
  kind: fc.constant("collect" as const),
  commit: fc.nat(20),
  records: fc.boolean(),
});
const events: fc.Arbitrary<Event[]> = fc.array(fc.oneof({ weight: 6, arbitrary: publish }, back, collect), {
  minLength: 4,
  maxLength: 9,
});

/** A market with hostile labels. Several share an hour. Some ids differ in their middle or last digits only. */
function marketOf({ index, hour, version }: Choice): HistoricalMarket {
  const plain = market(index);
  const label = hostile[(index + version) % hostile.length]!;
  const digits = ((index * 2_654_435_761) % 2 ** 32).toString(16).padStart(8, "0");
  return {
    ...plain,
    id: plain.id.replace(/^0{8}-0{4}/, [`${digits}-0000`, `00000000-${digits.slice(4)}`, "$&"][index % 3]!),
    category: label,
    resolvedOutcome: label,
    question: `${plain.question} ${label} ${version}`,
    resolvedAt: market(hour).resolvedAt,
  };
}

/** The content of the archive after a publish. */
function edited(
  before: ReadonlyMap<number, HistoricalMarket>,
  { edits, dropped }: Extract<Event, { kind: "publish" }>,
): Map<number, HistoricalMarket> {
  const after = new Map(before);
  for (const index of dropped) after.delete(index);
  for (const choice of edits) after.set(choice.index, marketOf(choice));
  // An archive is never empty in these histories.
  if (after.size === 0) after.set(0, marketOf({ index: 0, hour: 0, version: 0 }));
  return after;
}

/** Pays for everything. */
const nobody = { gone: () => false, pay: async () => {} };

// CHANGES_HISTORIES=300 npx vitest run --config test/vitest.config.ts test/snapshots/changes/history.test.ts
const histories = Number(process.env.CHANGES_HISTORIES ?? 6);
const seed = Number(process.env.CHANGES_SEED ?? 14);

const start = Date.parse("2026-03-01T00:00:00.000Z");

/** A commit of a history and the lines of its archive. */
interface State {
  snapshotId: string;
  lines: string[];
}

/** Plays a history into a store in memory. Returns the state after each commit, and whether anything was collected. */
async function play(history: readonly Event[]) {
  const objects = new Map<string, Buffer>();
  const storage = memoryStorage(objects);
  const states: State[] = [];
  let content: Map<number, HistoricalMarket> = new Map();
  const contents: (typeof content)[] = [];
  const note = async (now: typeof content) => {
    content = now;
    const { commit, snapshotId } = (await newestCommit(storage))!.entry;
    contents[commit] = now;
    states[commit] = {
      snapshotId,
      lines: inArchiveOrder([...now.values()]).map((market) => JSON.stringify(market)),
    };
  };
  const first: Event = {
    kind: "publish",
    edits: Array.from({ length: 90 }, (_, index) => ({ index, hour: index % 10, version: 0 })),
    dropped: [],
  };
  for (const [at, event] of [first, ...history].entries()) {
    const now = () => new Date(start + at * 3_600_000);
    const commits = states.length - 1;
    if (event.kind === "publish") {
      const next = edited(content, event);
      await publishRecords(storage, [...next.values()], 700, { resume: true, now });
      await note(next);
    } else if (event.kind === "rollback") {
      const to = 1 + (event.to % commits);
      await rollback(storage, String(to), now).then(
        () => note(contents[to]!),
        // To the current snapshot, or to one that has been collected.
        (error) => expect(error).toMatchObject({ code: "ROLLBACK_REFUSED" }),
      );
    } else if (commits > 1) {
      const commit = (await readCommit(storage, 1 + (event.commit % (commits - 1))))!;
      const current = (await newestCommit(storage))!;
      if (commit.manifest.hash !== current.manifest.hash)
        objects.delete(layout.manifest(commit.manifest.hash));
      if (event.records && commit.changes && objects.has(layout.changeRecord(commit.changes.hash)))
        for (const key of await changeObjects(storage, commit.changes)) objects.delete(key);
    }
  }
  return { storage, states: states.filter((state) => state !== undefined) };
}

/** Applies the lines of an answer to a copy, as a partner would, with nothing but what the lines say. */
function applied(copy: readonly string[], answer: string): string[] {
  const idOf = (line: string): string => JSON.parse(line).id;
  const kept = new Map(copy.map((line) => [idOf(line), line]));
  const seen = new Set<string>();
  for (const line of answer.split("\n").slice(0, -1)) {
    const change = JSON.parse(line);
    const id: string = change.op === "delete" ? change.id : change.market.id;
    expect(seen.has(id)).toBe(false);
    seen.add(id);
    if (change.op === "delete") expect(kept.delete(id)).toBe(true);
    else kept.set(id, line.slice('{"op":"put","market":'.length, -1));
  }
  return inArchiveOrder([...kept.values()].map((line) => JSON.parse(line))).map(({ id }) => kept.get(id)!);
}

async function whole(chunks: AsyncIterable<StreamChunk>) {
  const texts: Buffer[] = [];
  let count = 0;
  for await (const chunk of chunks) {
    expect(chunk.count).toBeLessThanOrEqual(500);
    count += chunk.count;
    texts.push(chunk.text);
  }
  return { count, bytes: Buffer.concat(texts) };
}

/** Order of an answer: deletes by id, then puts as the archive has them. */
function expectOrder(answer: string): void {
  const changes = answer
    .split("\n")
    .slice(0, -1)
    .map((line) => JSON.parse(line));
  const deletes = changes.filter(({ op }) => op === "delete").map(({ id }) => id);
  const puts = changes.slice(deletes.length).map(({ market }) => market);
  expect(deletes).toEqual(deletes.toSorted());
  expect(puts).toEqual(inArchiveOrder(puts));
}

test("a copy of one snapshot and what changed give every other one, cut and resumed anywhere", async () => {
  let [told, gone] = [0, 0];
  const pick = fc.record({ a: fc.nat(99), b: fc.nat(99), cut: fc.nat(1000) });
  const picks = fc.array(pick, { minLength: 8, maxLength: 8 });
  await fc.assert(
    fc.asyncProperty(events, picks, async (history, pairs) => {
      const { storage, states } = await play(history);
      const catalog = new Catalog(storage, { cacheBytes: 2 ** 22 });
      await catalog.refresh();
      const reader = new ChangesReader(catalog);
      for (const { a, b, cut } of pairs) {
        const [from, to] = [states[a % states.length]!, states[b % states.length]!];
        const query = { since: from.snapshotId, until: to.snapshotId };
        const planned = async () => (await reader.ask({ ...query, skip: 0 }, nobody)).plan();
        const plan = await planned().catch((error: unknown) => {
          if (isFault(error, "SNAPSHOT_EXPIRED")) return undefined;
          throw error;
        });
        if (!plan) {
          gone += 1;
          expect(history.some(({ kind }) => kind === "collect")).toBe(true);
          continue;
        }
        told += 1;
        const plain = await whole(plan.read());
        expect(plain.count).toBe(plan.count);
        const answer = String(plain.bytes);
        expectOrder(answer);
        expect(applied(from.lines, answer)).toEqual(to.lines);
        expect(String(gunzipSync((await whole(plan.readGzip!())).bytes))).toBe(answer);
        // Cut at any byte, and resumed by another process behind the whole lines received.
        const received = plain.bytes.subarray(0, Math.floor((plain.bytes.length * cut) / 1000));
        const lines = String(received).split("\n").length - 1;
        const rest = await (await new ChangesReader(catalog).ask({ ...query, skip: lines }, nobody)).plan();
        expect(rest.count).toBe(plan.count - lines);
        const others = String(gunzipSync((await whole(rest.readGzip!())).bytes));
        const kept = received.subarray(0, received.lastIndexOf(10) + 1);
        expect(String(kept) + others).toBe(answer);
        expect(String((await whole(rest.read())).bytes)).toBe(others);
      }
    }),
    { numRuns: histories, seed, endOnFailure: true },
  );
  console.info(`${histories} histories of seed ${seed}: ${told} pairs told, ${gone} expired`);
  expect(told).toBeGreaterThan(histories * 4);
});

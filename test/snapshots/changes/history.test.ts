import { gunzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { isFault } from "../../../schemas/errors.ts";
import type { HistoricalMarket } from "../../../schemas/records.ts";
import { changeObjects } from "../../../snapshots/changes/record.ts";
import { rollback } from "../../../snapshots/maintain/rollback.ts";
import type { StreamChunk } from "../../../snapshots/read/answer.ts";
import { Catalog } from "../../../snapshots/read/catalog/catalog.ts";
import { changesReader } from "../../../snapshots/read/changes/changes.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import { newestCommit, readCommit } from "../../../snapshots/store/log/commits.ts";
import { inArchiveOrder, market, publishRecords } from "../../helpers/publish/records.ts";
import { type Draw, drawing } from "../../helpers/store/drawing.ts";
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

type Content = ReadonlyMap<number, HistoricalMarket>;

/** The content after another publish: few markets and few times, so that they meet. */
function edited(before: Content | undefined, draw: Draw): Content {
  const after = new Map(before);
  for (let count = draw(12); before && count > 0; count -= 1) after.delete(draw(160));
  for (let count = before ? draw(40) : 90; count > 0; count -= 1) {
    const index = before ? draw(160) : count;
    after.set(index, marketOf({ index, hour: draw(13), version: draw(4) }));
  }
  return after;
}

/** Pays for everything. */
const nobody = { gone: () => false, pay: async () => {} };

// CHANGES_HISTORIES=300 npx vitest run --config test/vitest.config.ts test/snapshots/changes/history.test.ts
const histories = Number(process.env.CHANGES_HISTORIES ?? 4);
const seed = Number(process.env.CHANGES_SEED ?? 14);

/** A commit of a history, and the lines of its archive. */
interface State {
  commit: number;
  snapshotId: string;
  content: Content;
  lines: string[];
}

/** Plays publishes and rollbacks into a store in memory, of which some of what is not current is collected. */
async function play(draw: Draw) {
  const objects = new Map<string, Buffer>();
  const storage = memoryStorage(objects);
  const states: State[] = [];
  for (let day = 1; day < 10; day += 1) {
    const now = () => new Date(Date.UTC(2026, 2, day));
    const target = day > 3 && draw(4) === 0 ? states[draw(states.length)] : undefined;
    if (target && target.snapshotId === states.at(-1)!.snapshotId) continue;
    const content = target?.content ?? edited(states.at(-1)?.content, draw);
    if (target) await rollback(storage, String(target.commit), now);
    else await publishRecords(storage, [...content.values()], 700, { resume: true, now });
    const { commit, snapshotId } = (await newestCommit(storage))!.entry;
    const lines = inArchiveOrder([...content.values()]).map((one) => JSON.stringify(one));
    states.push({ commit, snapshotId, content, lines });
  }
  const current = (await newestCommit(storage))!;
  for (const withRecord of [false, true]) {
    const commit = (await readCommit(storage, 2 + draw(states.length - 2)))!;
    if (commit.manifest.hash === current.manifest.hash) continue;
    objects.delete(layout.manifest(commit.manifest.hash));
    if (withRecord) for (const key of await changeObjects(storage, commit.changes!)) objects.delete(key);
  }
  return { storage, states };
}

const linesOf = (answer: string) => answer.split("\n").slice(0, -1);

/** Applies the lines of an answer to a copy, as a partner would, with nothing but what the lines say. */
function applied(copy: readonly string[], answer: string): string[] {
  const idOf = (line: string): string => JSON.parse(line).id;
  const kept = new Map(copy.map((line) => [idOf(line), line]));
  const seen = new Set<string>();
  for (const line of linesOf(answer)) {
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
  const changes = linesOf(answer).map((line) => JSON.parse(line));
  const deletes = changes.filter(({ op }) => op === "delete").map(({ id }) => id);
  const puts = changes.slice(deletes.length).map(({ market }) => market);
  expect(deletes).toEqual(deletes.toSorted());
  expect(puts).toEqual(inArchiveOrder(puts));
}

test("a copy of one snapshot and what changed give every other one, cut and resumed anywhere", async () => {
  const draw = drawing(seed);
  let [told, gone] = [0, 0];
  for (let history = 0; history < histories; history += 1) {
    const { storage, states } = await play(draw);
    const catalog = new Catalog(storage, { cacheBytes: 2 ** 22 });
    await catalog.refresh();
    for (let pair = 0; pair < 12; pair += 1) {
      const [from, to] = [states[draw(states.length)]!, states[draw(states.length)]!];
      const planned = async (skip: number) => {
        const query = { since: from.snapshotId, until: to.snapshotId, skip };
        return (await changesReader(catalog)(query, nobody)).plan();
      };
      const plan = await planned(0).catch((error: unknown) => {
        if (!isFault(error, "SNAPSHOT_EXPIRED")) throw error;
        gone += 1;
      });
      if (!plan) continue;
      told += 1;
      const plain = await whole(plan.read());
      expect(plain.count).toBe(plan.count);
      const answer = String(plain.bytes);
      expectOrder(answer);
      expect(applied(from.lines, answer)).toEqual(to.lines);
      expect(String(gunzipSync((await whole(plan.readGzip!())).bytes))).toBe(answer);
      // Cut at any byte, and resumed by another process behind the whole lines received.
      const received = plain.bytes.subarray(0, draw(plain.bytes.length + 1));
      const lines = String(received).split("\n").length - 1;
      const rest = await planned(lines);
      expect(rest.count).toBe(plan.count - lines);
      const others = String(gunzipSync((await whole(rest.readGzip!())).bytes));
      const kept = received.subarray(0, received.lastIndexOf(10) + 1);
      expect(String(kept) + others).toBe(answer);
      expect(String((await whole(rest.read())).bytes)).toBe(others);
    }
  }
  console.info(`${histories} histories of seed ${seed}: ${told} pairs told, ${gone} expired`);
  expect(told).toBeGreaterThan(histories * 4);
  expect(gone).toBeGreaterThan(0);
});

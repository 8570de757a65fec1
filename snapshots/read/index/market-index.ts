import type { MarketAbsence, MarketIndex } from "../../../schemas/envelopes.ts";
import { Fault } from "../../../schemas/errors.ts";
import { marketIdPattern } from "../../../schemas/market.ts";
import { idParameter } from "../../../schemas/query.ts";
import type { SegmentRef } from "../../../schemas/store/stored-objects.ts";
import { chunkBytes } from "../../format/bytes.ts";
import { idOfLine } from "../../format/market-line.ts";
import { pathInLevels, treeLevels } from "../../format/tree.ts";
import { chunksOfEntries, entriesOf, idHash, ordinalsOf, requireIds } from "../../index/id-table.ts";
import { chunkLeaves } from "../../index/index-header.ts";
import { inParallel, type Turn } from "../../store/in-parallel.ts";
import { layout } from "../../store/layout.ts";
import { type Asked, type AsOf, whileKept } from "../answer.ts";
import { readLines } from "../archive/lines.ts";
import { levelsOf } from "../archive/market.ts";
import { awaitBudget, type Payer, paidSteps } from "../budgets.ts";
import type { Catalog } from "../catalog/catalog.ts";
import type { LogEntry } from "../catalog/commit-log.ts";
import { askProven, type PublicLog } from "../catalog/public-log.ts";
import { invalidParameter, type Parameters } from "../parameters.ts";

/** What the index of a snapshot consists of, and the path from its root to a checkpoint of the log (INTERFACE 4.12). */
export function askIndex(
  catalog: Catalog,
  publicLog: PublicLog,
  asOf: AsOf | undefined,
): Promise<Asked<MarketIndex>> {
  return askProven(catalog, publicLog, asOf, ["index"], async (commit, prove) => {
    const { manifest } = await whileKept(catalog, commit, () => catalog.listed(commit));
    const segments = manifest.segments.map(({ markets, index: { hash, bytes }, ids }) => ({
      markets,
      header: { hash, bytes },
      ids: { hash: ids.root, bytes: ids.bytes },
    }));
    return { ...(await prove()), ...indexOf(commit), segments };
  });
}

export const indexOf = ({ indexRoot, counts: { markets } }: LogEntry) => ({ indexRoot, markets });

// Each takes at most half a megabyte.
const readAtOnce = 8;
// Hashing the ids of a segment takes as long as inflating this many runs.
const stepsPerTree = 15;

/** The id that is asked for (INTERFACE 4.12). */
export function parseAbsenceQuery(parameters: Parameters): string {
  const { name } = idParameter;
  const id = parameters.get(name) ?? "";
  if (marketIdPattern.test(id)) return id;
  throw invalidParameter(name, `${name} must be given: the id of a market, a UUID in lower case.`);
}

/**
 * Shows that no market of a snapshot has an id, and the path from there to a checkpoint of the log (INTERFACE 4.12).
 * `pay` pays for hashing segments.
 */
export function askAbsence(
  catalog: Catalog,
  publicLog: PublicLog,
  id: string,
  asOf: AsOf | undefined,
  pay: Payer["pay"],
): Promise<Asked<MarketAbsence>> {
  return askProven(catalog, publicLog, asOf, ["absence", id], async (commit, prove) => {
    const show = () => showAbsence(catalog, commit, id, paidSteps(pay));
    const absence = await whileKept(catalog, commit, show);
    return { ...(await prove()), ...indexOf(commit), ...absence };
  });
}

async function showAbsence(catalog: Catalog, commit: LogEntry, id: string, spend: Turn) {
  const { manifest } = await catalog.listed(commit);
  const show = async (ref: SegmentRef) => {
    const key = layout.ids(ref.ids.hash);
    const stored = await catalog.objects.get(key, ref.ids);
    requireIds(key, stored, ref.markets);
    let hashed = false;
    const tree = await catalog.derived.hashes.get(`ids/${ref.ids.hash}`, async () => {
      hashed = true;
      await awaitBudget();
      return Buffer.from(treeLevels(chunkLeaves(stored, chunkBytes.ids)));
    });
    if (hashed) await spend(stepsPerTree);
    return { segment: showAround(ref, stored, tree, idHash(id)), sharing: ordinalsOf(stored, idHash(id)) };
  };
  const results = await inParallel(manifest.segments, show, readAtOnce);
  const others = await showOthers(catalog, commit, id, results);
  return { segments: results.map(({ segment }) => segment), others };
}

/** The chunks of a segment's ids that hold this hash, and those next to it on both sides. */
function showAround(
  { markets, index: header, ids }: SegmentRef,
  stored: Buffer,
  tree: Buffer,
  hash: number,
): MarketAbsence["segments"][number] {
  const { from, to, entries } = entriesOf(stored, hash);
  const bytes = chunkBytes.ids;
  const size = Math.ceil(ids.bytes / bytes);
  const chunks = chunksOfEntries(Math.max(0, from - 1), Math.min(entries - 1, to), bytes).map((index) => ({
    index,
    path: pathInLevels(tree, index, size).map((digest) => Buffer.from(digest).toString("hex")),
    content: stored.toString("base64", index * bytes, (index + 1) * bytes),
  }));
  return { markets, header: header.hash, ids: { bytes: ids.bytes, size, chunks } };
}

/** Markets whose ids share the hash of this one. `sharing` has their ordinals within a segment. */
async function showOthers(
  catalog: Catalog,
  commit: LogEntry,
  id: string,
  segments: readonly { sharing: readonly number[] }[],
): Promise<MarketAbsence["others"]> {
  if (segments.every(({ sharing }) => sharing.length === 0)) return [];
  const snapshot = await catalog.snapshot(commit);
  const { archive } = snapshot;
  const others: MarketAbsence["others"] = [];
  for (const [segment, { sharing }] of segments.entries()) {
    for (const ordinal of sharing.map((within) => archive.starts[segment]! + within)) {
      const [line] = await (await readLines(archive, [ordinal], catalog)).all();
      if (idOfLine(line!) === id)
        throw new Fault(
          "NOT_FOUND",
          `The archive has a market of this id: GET /api/v1/markets/${id} answers it, with the same asOf if any.`,
        );
      others.push(await levelsOf(catalog, snapshot, { ordinal, line: line! }));
    }
  }
  return others;
}

import type { ScoreList } from "../../schemas/envelopes.ts";
import { inListOrder, type ScoreListEntry } from "../../schemas/records.ts";
import type { ScoreRefs } from "../../schemas/store/stored-objects.ts";
import type { ScoreRow } from "../sources/sources.ts";
import { inParallel } from "../store/in-parallel.ts";
import { layout, sha256 } from "../store/layout.ts";
import type { ObjectWriter } from "./object-writer.ts";

/** Ascending. */
type BySlug = ReadonlyMap<string, Buffer>;

/** The stored score responses. The list and the records are public; histories and dimensions need a plan. */
export interface ScoreObjects {
  list: Buffer;
  records: BySlug;
  histories: BySlug;
  dimensions: BySlug;
  newestUpdatedAt: string;
}

/** The rows ascend by slug, as Sources.scores gives them. */
export function renderScores(rows: readonly ScoreRow[]): ScoreObjects {
  const objects = (textOf: (row: ScoreRow) => string) =>
    new Map(rows.map((row) => [row.entry.slug, Buffer.from(textOf(row))]));
  return {
    ...renderList(rows.map(({ entry }) => entry)),
    records: objects(({ json }) => json),
    histories: objects(({ history }) => history),
    dimensions: objects(({ dimensions }) => dimensions),
  };
}

/** Ordered by descending bri, then slug. */
export function renderList(
  unordered: readonly ScoreListEntry[],
): Pick<ScoreObjects, "list" | "newestUpdatedAt"> {
  const scores = inListOrder(unordered);
  const times = scores.map(({ updatedAt }) => updatedAt).sort();
  const newestUpdatedAt = times.at(-1) ?? "";
  const list: ScoreList = { count: scores.length, updatedAt: newestUpdatedAt, scores };
  return { list: Buffer.from(JSON.stringify(list)), newestUpdatedAt };
}

export function referToScores({ list, records, histories, dimensions }: ScoreObjects): ScoreRefs {
  return {
    list: { hash: sha256(list) },
    records: referToAll(records),
    histories: referToAll(histories),
    dimensions: referToAll(dimensions),
  };
}

/** Also mends objects that were altered. */
export async function writeScores(objects: ObjectWriter, scores: ScoreObjects): Promise<ScoreRefs> {
  const { list, records, histories, dimensions } = scores;
  const open = [list, ...records.values()];
  await inParallel(open, (bytes) => objects.writeOrMend(layout.publicObject(sha256(bytes)), bytes));
  const closed = [...histories.values(), ...dimensions.values()];
  await inParallel(closed, (bytes) => objects.writeOrMend(layout.privateObject(sha256(bytes)), bytes));
  return referToScores(scores);
}

/** Only those that are public. */
export function objectsByHash({ list, records }: ScoreObjects): Map<string, Buffer> {
  return new Map([list, ...records.values()].map((bytes) => [sha256(bytes), bytes]));
}

function referToAll(objects: BySlug): ScoreRefs["records"] {
  return Object.fromEntries([...objects].map(([slug, bytes]) => [slug, { hash: sha256(bytes) }]));
}

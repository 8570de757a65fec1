import type { ScoreList } from "../../schemas/envelopes.ts";
import type { ObjectRef } from "../../schemas/snapshot.ts";
import { sha256 } from "../seal.ts";
import type { ScoreRow } from "../sources/sources.ts";

/** What SPEC gives to Free callers, as objects of the public tree. */
export interface ScoreObjects {
  list: Buffer;
  /** By slug, ascending. */
  records: Map<string, Buffer>;
  newestUpdatedAt: string;
}

/** Renders the score list (bri descending, then slug) and the records. */
export function renderScores(rows: readonly ScoreRow[]): ScoreObjects {
  const bySlug = rows.toSorted((a, b) => (a.entry.slug < b.entry.slug ? -1 : 1));
  const entries = bySlug.map((row) => row.entry).sort((a, b) => b.bri - a.bri);
  const newestUpdatedAt =
    entries
      .map((entry) => entry.updatedAt)
      .sort()
      .at(-1) ?? "";
  const list: ScoreList = { count: entries.length, updatedAt: newestUpdatedAt, scores: entries };
  return {
    list: Buffer.from(JSON.stringify(list)),
    records: new Map(bySlug.map(({ entry, json }) => [entry.slug, Buffer.from(json)])),
    newestUpdatedAt,
  };
}

/** Reference to an object of these bytes. */
export function referTo(bytes: Buffer): ObjectRef {
  return { hash: sha256(bytes), bytes: bytes.length };
}

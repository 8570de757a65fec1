import { bytesOf, fromOctets, textOf, toBase64 } from "../../../snapshots/format/bytes.ts";
import type { MarketPage } from "./declarations.d.ts";

/** A page with its markets as they came. */
export type PageTexts = Omit<MarketPage, "markets"> & { markets: string[] };

/** Reads a page, but not its markets: their hashes are of their texts, byte for byte. */
export function pageIn(body: string): PageTexts {
  const member = '"markets":[';
  const start = body.indexOf(member) + member.length;
  const markets: string[] = [];
  let [depth, from] = [0, 0];
  for (const { 0: token, index } of body.slice(start).matchAll(/"[^"\\]*(?:\\.[^"\\]*)*"|[[\]{}]/g)) {
    if (token === "{" || token === "[") {
      if (depth === 0) from = index;
      depth += 1;
    } else if (token.length === 1) {
      depth -= 1;
      if (depth < 0) break;
      if (depth === 0) markets.push(body.slice(start + from, start + index + 1));
    }
  }
  return { ...JSON.parse(body), markets };
}

/** Where a cursor leads: behind the market with this ordinal, in this snapshot. */
export interface Place {
  commit: number;
  snapshotId: string;
  ordinal: number;
  resolvedAt: number;
  id: string;
  pageSize: number;
  /** The filters. */
  canonical: string;
}

/** Reads a cursor; undefined where it is none. */
export function cursorIn(text: string): Place | undefined {
  try {
    const bytes = fromOctets(atob(text.replaceAll("-", "+").replaceAll("_", "/")));
    const [commit, snapshotId, ordinal, resolvedAt, id, pageSize, canonical] = JSON.parse(textOf(bytes));
    return { commit, snapshotId, ordinal, resolvedAt, id, pageSize, canonical: String(canonical) };
  } catch {
    return undefined;
  }
}

export function cursorText({ commit, snapshotId, ordinal, resolvedAt, id, pageSize, canonical }: Place) {
  const fields = [commit, snapshotId, ordinal, resolvedAt, id, pageSize, canonical];
  const text = toBase64(bytesOf(JSON.stringify(fields)));
  return text.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

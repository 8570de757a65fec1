import type { Manifest } from "../../schemas/snapshot.ts";

/** How much of one kind differs between two snapshots. */
export interface ChangeCounts {
  added: number;
  changed: number;
  removed: number;
}

/** What readers see of a publish run. */
export interface Changes {
  markets: ChangeCounts;
  /** `first`: some of their slugs, in order. */
  protocols: ChangeCounts & { first: Record<keyof ChangeCounts, string[]> };
}

const shownSlugs = 20;

type Records = Manifest["scores"]["records"];

/** Compares the scores of two snapshots by the digests of their records. */
export function protocolChanges(before: Records, after: Records): Changes["protocols"] {
  const [old, fresh] = [Object.keys(before), Object.keys(after)];
  const added = fresh.filter((slug) => !Object.hasOwn(before, slug));
  const removed = old.filter((slug) => !Object.hasOwn(after, slug));
  const both = fresh.filter((slug) => Object.hasOwn(before, slug));
  const changed = both.filter((slug) => before[slug]!.hash !== after[slug]!.hash);
  const first = (slugs: readonly string[]) => slugs.toSorted().slice(0, shownSlugs);
  return {
    added: added.length,
    changed: changed.length,
    removed: removed.length,
    first: { added: first(added), changed: first(changed), removed: first(removed) },
  };
}

import type { ChangeCounts, Manifest } from "../../schemas/snapshot.ts";

/** What a publish run changes for readers. */
export interface Changes {
  markets: ChangeCounts;
  /** `first` holds up to 20 slugs of each kind, in order. */
  protocols: ChangeCounts & { first: Record<keyof ChangeCounts, string[]> };
}

const shownSlugs = 20;

type Records = Manifest["scores"]["records"];

/** Compares the protocols of two snapshots by the hashes of their records. */
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

import { leftSize } from "../../../snapshots/format/hash-trees.ts";
import { treeHead } from "../../../snapshots/format/tree.ts";

/** The hashes that show the first `first` leaves, at least one, to be the beginning of them all (RFC 6962, 2.1.2). */
export function consistencyPath(leaves: readonly Buffer[], first: number): Buffer[] {
  return pathWithin(leaves, first, true);
}

/** `whole`: whether the tree of the first leaves is a subtree here whose head the verifier has. */
function pathWithin(leaves: readonly Buffer[], first: number, whole: boolean): Buffer[] {
  if (first === leaves.length) return whole ? [] : [treeHead(leaves)];
  const split = leftSize(leaves.length);
  const [left, right] = [leaves.slice(0, split), leaves.slice(split)];
  return first <= split
    ? [...pathWithin(left, first, whole), treeHead(right)]
    : [...pathWithin(right, first - split, false), treeHead(left)];
}

import type { Commit } from "../../schemas/snapshot.ts";
import { tileEncoder, tilesOf } from "../format/log-tree.ts";
import { completeEntries, entryOf, listTiles, tileKey } from "../publish/public-log.ts";
import { CorruptObjectError } from "../store/errors.ts";
import { layout } from "../store/layout.ts";
import type { CheckedCommit } from "./log-check.ts";
import { publishAgain, type StoreCheck } from "./store-check.ts";

/**
 * Checks that the public log is that of the commits up to the newest. Entries of commits that are gone are taken from bundles that
 * agree with their tiles. Tiles of later commits, which somebody may be adding, are left to the check of what remains.
 */
export async function checkPublicLog(
  check: StoreCheck,
  commits: ReadonlyMap<number, Commit>,
  newest: CheckedCommit | undefined,
): Promise<void> {
  if (!newest) return check.countOnly(layout.logTiles);
  const size = newest.commit.commit;
  const listed = await listTiles(check.storage, size);
  const known = Array.from({ length: size }, (_, place) => commits.get(place + 1)).map(
    (commit) => commit && entryOf(commit),
  );
  const encode = tileEncoder(await completeEntries(check.storage, known, listed));
  const needed = new Map(tilesOf(size).map((tile) => [tileKey(tile), tile]));
  for (const [key, tile] of new Map([...listed, ...needed])) {
    await check.attempt(async () => {
      const bytes = await check.storage.get(key);
      if (bytes) check.count(key, bytes.length);
      if (bytes ? encode(tile)?.equals(bytes) : !needed.has(key)) return;
      // A publisher that stops after its commit leaves the log of an earlier one.
      const reason = bytes
        ? "it is not what the commits give; delete it"
        : `projection behind commit ${size}`;
      throw new CorruptObjectError(key, reason);
    }, publishAgain);
  }
}

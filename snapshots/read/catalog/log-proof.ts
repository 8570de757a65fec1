import type { MarketProof, ScoreProof } from "../../../schemas/envelopes.ts";
import { inclusionFromTiles, TileError } from "../../format/log-proofs.ts";
import { auditPath, headFrom, leafHash } from "../../format/tree.ts";
import { CorruptObjectError, ObjectError } from "../../store/errors.ts";
import { layout } from "../../store/layout.ts";
import type { NotedCheckpoint } from "../../trust/notes/texts.ts";
import { type Asked, weakTag } from "../asked.ts";
import type { AsOf } from "../query/query.ts";
import { commitOf } from "./as-of.ts";
import type { Catalog } from "./catalog.ts";
import type { LogEntry } from "./commit-log.ts";
import type { PublicLog } from "./public-log.ts";

/** What every proof has: the commit's entry in the public log, and what leads from there to a signature. */
interface LogProof extends Pick<MarketProof, "snapshotId" | "commit" | "entry" | "checkpoint"> {
  inclusion: MarketProof["proof"]["inclusion"];
}

/** A commit, and what proves that the log has it. */
export type Logged = [commit: LogEntry, prove: () => Promise<LogProof>];

/** A query for what leads from a snapshot to the newest checkpoint. */
export async function askProven<Plan>(
  catalog: Catalog,
  publicLog: PublicLog,
  asOf: AsOf | undefined,
  name: readonly string[],
  plan: (...logged: Logged) => Promise<Plan>,
): Promise<Asked<Plan>> {
  const commit = await commitOf(catalog, asOf);
  const checkpoint = await checkpointFor(publicLog, commit, asOf);
  const etag = weakTag(commit, ...name, checkpoint?.note ?? "");
  return { commit, etag, plan: () => plan(commit, () => proveCommit(publicLog, commit, checkpoint)) };
}

/**
 * The newest checkpoint. Without `asOf` it is that of the current commit while the log goes on to one that this process
 * has not taken up: readers refuse an answer that is not of the last commit of its checkpoint.
 */
export async function checkpointFor(
  publicLog: PublicLog,
  { commit }: LogEntry,
  asOf: AsOf | undefined,
): Promise<NotedCheckpoint | undefined> {
  const newest = await publicLog.checkpoint();
  if (asOf || !newest || newest.size <= commit) return newest;
  return (await publicLog.checkpointOf(commit)) ?? newest;
}

/**
 * Proves that the log of a checkpoint has a commit. Where there is no checkpoint, or an older one, the entry comes
 * alone. Throws CorruptObjectError when the log's tiles do not give the signed tree, MissingObjectError or
 * StorageError.
 */
export async function proveCommit(
  publicLog: PublicLog,
  logged: LogEntry,
  checkpoint: NotedCheckpoint | undefined,
): Promise<LogProof> {
  const { commit, snapshotId } = logged;
  const entry = await publicLog.entry(logged);
  const alone = { snapshotId, commit, entry: entry.toString(), checkpoint: null, inclusion: null };
  if (!checkpoint || checkpoint.size < commit) return alone;
  const place = { index: commit - 1, size: checkpoint.size };
  // The store may be ahead of what is known, and have tiles of what its commits no longer tell.
  for (const readTile of [publicLog.tile, publicLog.storedTile]) {
    const path = await inclusionFromTiles(readTile, place.index, place.size).catch((error) => {
      if (error instanceof TileError || error instanceof ObjectError) return [];
      throw error;
    });
    if (headFrom(leafHash(entry), { ...place, path })?.equals(checkpoint.head))
      return { ...alone, checkpoint: checkpoint.note, inclusion: path.map((hash) => hash.toString("hex")) };
  }
  throw new CorruptObjectError(
    layout.logTile.prefix,
    `it is not the tree of ${place.size} commits that was signed`,
  );
}

/** A level of a proof: which child of how many, and the hashes that lead from there to the head, from the bottom up. */
export function levelOf(index: number, hashes: readonly Buffer[]) {
  const path = auditPath(hashes, index).map((hash) => hash.toString("hex"));
  return { index, size: hashes.length, path };
}

/**
 * A proof as c2sp.org/tlog-proof has it, with what leads to the entry as its extra data; undefined without a
 * checkpoint.
 */
export function proofText({
  checkpoint,
  commit,
  proof,
  ...rest
}: MarketProof | ScoreProof): string | undefined {
  const { inclusion, ...levels } = proof;
  if (checkpoint === null || inclusion === null) return undefined;
  const extra = Buffer.from(JSON.stringify({ ...rest, commit, proof: levels })).toString("base64");
  const hashes = inclusion.map((hash) => `${Buffer.from(hash, "hex").toString("base64")}\n`);
  return `c2sp.org/tlog-proof@v1\nextra ${extra}\nindex ${commit - 1}\n${hashes.join("")}\n${checkpoint}`;
}

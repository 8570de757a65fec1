import type { MarketProof, ScoreProof } from "../../../schemas/envelopes.ts";
import { hashBytes, hashesIn } from "../../format/hash-trees.ts";
import {
  decodeEntries,
  endOf,
  type ReadTile,
  type Tile,
  TileError,
  tileAt,
  tilePath,
  tileWidth,
} from "../../format/log-tiles.ts";
import {
  auditPath,
  encodeEntries,
  headFrom,
  headFromTiles,
  inclusionFromTiles,
  leafHash,
  treeHead,
} from "../../format/tree.ts";
import { CorruptObjectError, MissingObjectError, ObjectError } from "../../store/errors.ts";
import { inParallel } from "../../store/in-parallel.ts";
import { layout } from "../../store/layout.ts";
import { readCommit } from "../../store/log/commits.ts";
import { entryOf, hashesOf, leavesOf, readEntries, tileKey, tilesIn } from "../../store/log/tiles.ts";
import type { Storage } from "../../store/storage.ts";
import { anyCheckpoint } from "../../trust/log/checkpoints.ts";
import type { LogReader } from "../../trust/log/log-reader.ts";
import type { NotedCheckpoint } from "../../trust/notes/signed-note.ts";
import { type Asked, type AsOf, commitAsOf, weakTag } from "../answer.ts";
import { awaitBudget, budgets, Memo } from "../budgets.ts";
import type { Catalog } from "./catalog.ts";
import type { CommitLog, LogEntry } from "./commit-log.ts";

/** Computing the head of a full tile takes as long as inflating this many runs. */
const stepsPerHead = 4;

/**
 * The files of the public log. They follow from the commits that the newest one leads back to: whoever can write to the
 * store could put others there, and an answer is kept for a year.
 */
export function openPublicLog(storage: Storage, log: CommitLog, reader: Pick<LogReader, "checkpoint">) {
  const look = log.recent(readLeaves, Number.POSITIVE_INFINITY);
  // The hashes of all entries, one after the other. Anybody may ask for tiles, at no cost, and where the log is damaged
  // all of it is read to find that out.
  const allLeaves = () => log.unlessDamaged("leaves", look);
  /** Tiles and bundles by name and their last leaf, which vouches for all before it. */
  const files = new Memo<Buffer>(budgets.logFiles, ({ length }) => length + 200);
  const checkpoints = new Memo<{ checkpoint: NotedCheckpoint | undefined }>(budgets.checkpoints);

  /**
   * The bytes of a file, by its name below the log; undefined when there is none, when it belongs to a larger log than
   * is known, or when it is a checkpoint of another log.
   */
  async function file(name: string): Promise<Buffer | undefined> {
    if (name === "checkpoint") return bytesOf(await checkpoint());
    const tile = name.startsWith("tile/") ? tileAt(name.slice("tile/".length)) : undefined;
    if (tile?.level === "entries") return bundleOf(tile);
    if (tile) return hashesOfTile(tile);
    const size = /^checkpoints\/([1-9]\d*)$/.exec(name)?.[1];
    return size === undefined ? undefined : bytesOf(await checkpointOf(Number(size)));
  }

  /** The newest checkpoint that is believed. */
  async function checkpoint(): Promise<NotedCheckpoint | undefined> {
    // By the number of the newest commit, because its checkpoint is signed a moment after it.
    return knownCheckpoint(`newest ${log.newest?.entry.commit ?? 0}`, () => reader.checkpoint());
  }

  /** The checkpoint that was signed at a size, if it is one of this log. */
  async function checkpointOf(size: number): Promise<NotedCheckpoint | undefined> {
    // The store is never asked for sizes beyond the known log.
    if (size > (log.newest?.entry.commit ?? 0)) return undefined;
    return knownCheckpoint(String(size), async () => {
      const candidate = await anyCheckpoint(storage, layout.logCheckpointOf(size));
      if (candidate?.size !== size) return undefined;
      return candidate.head.equals(await headFromTiles(tile, size)) ? candidate : undefined;
    });
  }

  /** Reads the commit again, since readers keep only a part of it. */
  async function entry({ commit, digest }: LogEntry): Promise<Buffer> {
    const { newest } = log;
    const fullCommit = newest?.digest === digest ? newest : await readCommit(storage, commit);
    if (fullCommit?.digest === digest) return entryOf(fullCommit);
    throw new MissingObjectError(layout.commit(commit));
  }

  /** A tile of hashes, as the commits give it; undefined when it belongs to a larger log. */
  const tile: ReadTile = (level, index, width) => hashesOfTile({ level, index, width });

  async function hashesOfTile(tile: Tile): Promise<Buffer | undefined> {
    const leaves = await leavesBelow(tile);
    if (!leaves || tile.level === 0) return leaves;
    return files.get(nameOf(tile, leaves), async () => {
      const heads: Buffer[] = [];
      for (let place = 0; place < tile.width; place += 1) {
        const below = {
          level: Number(tile.level) - 1,
          index: tile.index * tileWidth + place,
          width: tileWidth,
        };
        await awaitBudget(stepsPerHead);
        heads.push(treeHead(hashesIn((await hashesOfTile(below))!)));
      }
      return Buffer.concat(heads);
    });
  }

  async function knownCheckpoint(name: string, read: () => Promise<NotedCheckpoint | undefined>) {
    return (await checkpoints.get(name, async () => ({ checkpoint: await read() }))).checkpoint;
  }

  /** Cuts a bundle from the widest one of its index, so that the store is read once for all widths. */
  async function bundleOf(tile: Tile): Promise<Buffer | undefined> {
    if (!(await leavesBelow(tile))) return undefined;
    const size = (await allLeaves()).length / hashBytes;
    const widest = { ...tile, width: Math.min(tileWidth, size - tile.index * tileWidth) };
    const leaves = (await leavesBelow(widest))!;
    const name = nameOf(widest, leaves);
    const read = () => files.get(name, () => readBundle(widest, leaves));
    const bundle = await log.unlessDamaged(name, read);
    return tile.width === widest.width ? bundle : encodeEntries(decodeEntries(bundle)!.slice(0, tile.width));
  }

  /** The bundle of the store where that agrees with the commits, and else the one that they give. */
  async function readBundle(tile: Tile, leaves: Buffer): Promise<Buffer> {
    const stored = await readEntries(storage, tile);
    if (stored && hashesOf(stored).equals(leaves)) return encodeEntries(stored);
    const entries = await inParallel(hashesIn(leaves).entries(), async ([place, hash]) => {
      const number = tile.index * tileWidth + place + 1;
      const commit = await readCommit(storage, number);
      const entry = commit && entryOf(commit);
      if (!entry || !leafHash(entry).equals(hash))
        throw new CorruptObjectError(
          tileKey(tile),
          `neither it nor commit ${number} has the entry of the log`,
        );
      return entry;
    });
    return encodeEntries(entries);
  }

  /** The hashes of the entries below a tile; undefined when there are not so many. */
  async function leavesBelow(tile: Tile): Promise<Buffer | undefined> {
    if (endOf(tile) > (log.newest?.entry.commit ?? 0)) return undefined;
    const leaves = await allLeaves();
    const end = endOf(tile) * hashBytes;
    return end > leaves.length ? undefined : leaves.subarray(endOf({ ...tile, width: 0 }) * hashBytes, end);
  }

  async function readLeaves(): Promise<Buffer> {
    const newest = log.newest!;
    const entries = await log.believed();
    if (entries.length === entries[0]?.commit)
      return Buffer.concat(entries.toReversed().map(({ leaf }) => Buffer.from(leaf, "hex")));
    // What commits no longer tell, tiles may.
    const leaves = await leavesOf(storage, newest);
    if (leaves) return Buffer.concat(leaves);
    throw new CorruptObjectError(
      layout.commit.prefix,
      "neither they nor the tiles beside them tell the whole log",
    );
  }

  /** `storedTile` is as the store has it, which may be ahead of what is known. Whoever reads it checks it. */
  return { file, checkpoint, checkpointOf, entry, tile, storedTile: tilesIn(storage) };
}

export type PublicLog = ReturnType<typeof openPublicLog>;

const bytesOf = (checkpoint: NotedCheckpoint | undefined) => checkpoint && Buffer.from(checkpoint.note);

const nameOf = (tile: Tile, leaves: Buffer) =>
  `${tilePath(tile)} ${leaves.toString("hex", leaves.length - hashBytes)}`;

/** What every proof has: the commit's entry in the public log, and what leads from there to a signature. */
interface LogProof extends Pick<MarketProof, "snapshotId" | "commit" | "entry" | "checkpoint"> {
  inclusion: MarketProof["proof"]["inclusion"];
}

/** A commit, and what proves that the log has it. */
export type Logged = [commit: LogEntry, prove: () => Promise<LogProof>];

/**
 * A query for what leads from a snapshot to the newest checkpoint. Without `asOf` it is that of the current commit
 * while the log goes on to one that this process has not taken up: readers refuse an answer that is not of the last
 * commit of its checkpoint.
 */
export async function askProven<Plan>(
  catalog: Catalog,
  publicLog: PublicLog,
  asOf: AsOf | undefined,
  name: readonly string[],
  plan: (...logged: Logged) => Promise<Plan>,
): Promise<Asked<Plan>> {
  const commit = await commitAsOf(catalog, asOf);
  const newest = await publicLog.checkpoint();
  const isAhead = !asOf && newest !== undefined && newest.size > commit.commit;
  const checkpoint = (isAhead && (await publicLog.checkpointOf(commit.commit))) || newest;
  const etag = weakTag(commit, ...name, checkpoint?.note ?? "");
  return { commit, etag, plan: () => plan(commit, () => proveCommit(publicLog, commit, checkpoint)) };
}

/** Proves that a checkpoint's log has a commit. Without a checkpoint, or with an older one, the entry comes alone. */
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

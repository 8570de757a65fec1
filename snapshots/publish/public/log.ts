import type { Commit } from "../../../schemas/store/stored-objects.ts";
import { type Tile, tilesOf, tileWidth } from "../../format/log-tiles.ts";
import { parseNote, type VerifierKey } from "../../format/note.ts";
import { type Entries, encodeEntries, tileEncoder, treeHead } from "../../format/tree.ts";
import { inParallel } from "../../store/in-parallel.ts";
import { layout } from "../../store/layout.ts";
import {
  entriesUpTo,
  entryOf,
  LogTree,
  lastBundle,
  leavesOf,
  readEntries,
  tileCheck,
  tileKey,
  tilesAmong,
} from "../../store/log/tiles.ts";
import { infoOf, type Storage, StorageError } from "../../store/storage.ts";
import { believe, evidenceIn, type RunLog, recall, type Signing, trustOf } from "../../trust/log/believe.ts";
import { mergeNotes, readNote, signCheckpoint, timeOf } from "../../trust/notes/signed-note.ts";
import { submissionOf } from "../../trust/witnesses.ts";
import type { PublicTree } from "./site.ts";

// The public log of a store, in the order in which a run writes it:
//
// 1. The commit, in which its entry is signed. It was made with `treeBefore`, and vouches for all entries before it.
// 2. The tiles. Only then is there something to check a checkpoint against.
// 3. The checkpoint is signed, and kept in the publisher's own file before anybody sees it.
// 4. Witnesses cosign it.
// 5. It is stored by its size, and then as the newest, together with what they cosigned.
//
// A run may be killed after any of these steps. Each run repeats all but the first for the newest commit, whoever made
// it: tiles are compared, a checkpoint of the same tree gets the same signature, and cosignatures are merged. Of two
// runs at once, the one whose commit has been followed leaves the rest to the other, which vouches for both trees.

/** In hexadecimal, over the entries up to the newest commit: `tree` of the commit that follows. */
export async function treeBefore(storage: Storage, newest: Commit | undefined): Promise<string> {
  return (newest ? (await LogTree.upTo(storage, newest)).head : treeHead([])).toString("hex");
}

/** Whether a witness of the policy cosigned the newest checkpoint: when, in seconds since 1970, or why not. */
export type Witnessed = { name: string } & ({ time: number } | { fault: string });

/**
 * Brings the tiles of the log to the newest commit, and its checkpoint where there is a key. `log` is what the run met
 * when it began, if this is still the newest commit. Returns what the witnesses made of the checkpoint. Throws
 * UNTRUSTED_PREDECESSOR when the tree does not continue every tree that was signed before, or a witness remembers a
 * different one.
 */
export async function updateLog(
  publicTree: PublicTree,
  newest: Commit,
  signing: Signing,
  log?: RunLog,
): Promise<Witnessed[]> {
  await updateTiles(publicTree, newest, log);
  return updateCheckpoint(publicTree, newest, signing, log);
}

/**
 * Checks by the last bundle that the tiles give the tree of the log, and by their names that none is missing. Compares
 * all of them at every 256th commit, and when some are `faulty`. What is missing or wrong is made anew from the
 * commits. Where commits are gone, hashes are made from the tiles below, and entries stay as they are.
 */
async function updateTiles(publicTree: PublicTree, newest: Commit, log?: RunLog): Promise<void> {
  const { storage, faulty } = publicTree;
  const size = newest.entry.commit;
  const wanted = tilesOf(size);
  const stored = tilesAmong(
    publicTree.under(layout.logTile.prefix).map(({ key }) => key),
    size,
  );
  const lacking = wanted.filter((tile) => !stored.has(tileKey(tile)));
  const all = [...stored.values(), ...lacking];
  const last = lastBundle(size);
  const { index, width } = last;
  const isLast = (tile: Tile) => (tile.level === "entries" || tile.level === 0) && tile.index === index;
  const readBefore = async () => {
    const bundle = [last, lastBundle(size - 1)].find((tile) => stored.has(tileKey(tile)));
    return bundle && (bundle === last && log ? log.tail() : readEntries(storage, bundle));
  };
  const before = width === 1 ? [] : await readBefore();
  /** The entries of the last bundle. Those before the newest are unchecked. */
  const tail = before && [...before.slice(0, width - 1), entryOf(newest)];
  const ofTail: Entries = [...Array(index * tileWidth).fill(undefined), ...(tail ?? [])];
  if (tail && ![...faulty].some((key) => key.startsWith(layout.logTile.prefix))) {
    const grows = width < tileWidth && lacking.every(isLast);
    if (grows && (log?.tree ?? (await LogTree.byTiles(storage, newest, tail))))
      return putTiles(publicTree, wanted.filter(isLast), ofTail);
    const leaves = await leavesOf(storage, newest, ofTail);
    const others = wanted.filter((tile) => tile.level === "entries" && !isLast(tile));
    if (leaves && (await areRight(storage, others, leaves))) return putTiles(publicTree, all, ofTail, leaves);
  }
  const ofCommits = await entriesUpTo(storage, newest);
  // The tail may be wrong. Then tiles tell the hashes of what is gone.
  for (const entries of [ofCommits.map((entry, place) => entry ?? ofTail[place]), ofCommits]) {
    const leaves = await leavesOf(storage, newest, entries);
    if (leaves) return putTiles(publicTree, all, entries, leaves);
  }
}

/** Whether bundles hold the entries of which these are the hashes. */
async function areRight(storage: Storage, bundles: readonly Tile[], leaves: Entries): Promise<boolean> {
  const isRight = tileCheck(leaves);
  const verdicts = await inParallel(bundles, async (bundle) => {
    const entries = await readEntries(storage, bundle);
    return entries !== undefined && isRight(bundle, encodeEntries(entries));
  });
  return verdicts.every(Boolean);
}

async function putTiles(
  publicTree: PublicTree,
  tiles: readonly Tile[],
  entries: Entries,
  leaves?: Entries,
): Promise<void> {
  const encode = tileEncoder(entries, leaves);
  await inParallel(tiles, async (tile) => {
    const bytes = encode(tile);
    if (bytes) await publicTree.putIfDifferent(tileKey(tile), bytes);
  });
}

/**
 * Signs the tree of the log, shows it to those witnesses that have not cosigned it yet, and stores what they made of
 * it. Nothing is signed without a key, or where no trusted key signed the entry of the newest commit.
 */
async function updateCheckpoint(
  publicTree: PublicTree,
  newest: Commit,
  signing: Signing,
  log?: RunLog,
): Promise<Witnessed[]> {
  const { storage } = publicTree;
  const { commit: size } = newest.entry;
  const { key, cosigner, trusted = [], witnesses, memory: file } = signing;
  const trust = trustOf(signing);
  if (!key || !trust || trust.refusalOfCommit(newest)) return [];
  // The run has compared the log with a checkpoint of its own size. Before the first one is signed, everybody is asked.
  const belief =
    log?.stored?.checkpoint?.size === size
      ? log
      : await believe(storage, newest, await recall(storage, signing, { witnesses: true }), log?.tree);
  if (belief.fault) throw belief.fault;
  if (belief.followed) return [];
  const tree = belief.tree ?? (await LogTree.upTo(storage, newest));

  /** Whether a stored checkpoint shows that another publisher went on. Throws when it is of another tree. */
  const isFollowed = async (at: string, stored: string | undefined): Promise<boolean> => {
    const checkpoint = stored === undefined ? undefined : trust.checkpoint(stored);
    if (!checkpoint || "reason" in checkpoint) return false;
    const evidence = [evidenceIn(at, checkpoint)];
    const { fault, followed } = await believe(storage, newest, { trust, evidence }, tree);
    if (fault) throw fault;
    return followed === true;
  };

  const bySize = layout.logCheckpointOf(size);
  const before = log?.stored?.note;
  const isStored = before !== undefined && (await publicTree.holds(bySize, Buffer.from(before)));
  const stored = isStored ? before : await readNote(storage, bySize);
  // Another tree of this size may have been signed since those that remember one were asked.
  if (await isFollowed(bySize, stored)) return [];
  const own = signCheckpoint(signing, tree);
  // Must be kept before anybody sees it.
  await file?.keep(own);

  const members = witnesses?.policy.witnesses ?? [];
  const keys = [key, ...trusted, ...(cosigner ? [cosigner] : []), ...members.map((witness) => witness.key)];
  const current = mergeNotes(own, stored, keys);
  const { text, signatures } = parseNote(current);
  const lineOf = ({ name, id }: VerifierKey) =>
    signatures.find((each) => each.name === name && each.id === id);
  const lacking = members.filter((witness) => !lineOf(witness.key));
  // The checkpoint is stored with its cosignatures, so that readers who require them never see it without.
  const answers = (await witnesses?.ask(lacking, submissionOf(storage, own, tree))) ?? [];
  const lines = answers.flatMap((answer) => ("line" in answer ? [`${answer.line}\n`] : []));
  const note = lines.length > 0 ? mergeNotes(`${text}\n${lines.join("")}`, current, keys) : current;

  /** Returns what is stored then; undefined when another publisher went on. */
  const mergeInto = async (at: string, note: string): Promise<string | undefined> => {
    if (await publicTree.holds(at, Buffer.from(note))) return note;
    for (let round = 0; round < maxRounds; round += 1) {
      const info = await (round === 0 ? publicTree.infoOf(at) : infoOf(storage, at));
      const stored = info && (await readNote(storage, at));
      if (await isFollowed(at, stored)) return undefined;
      const wanted = mergeNotes(note, stored, keys);
      if (wanted === stored) return wanted;
      const bytes = Buffer.from(wanted);
      const put = info ? storage.replace(at, bytes, info.tag) : storage.putIfAbsent(at, bytes);
      if (await put) return wanted;
    }
    throw new StorageError(`${storage.location}: other publishers keep changing ${at}; run again`);
  };

  const merged = await mergeInto(bySize, note);
  if (merged !== undefined) await mergeInto(layout.logCheckpoint, merged);
  return members.map(({ name, key }) => {
    const line = lineOf(key);
    if (line) return { name, time: timeOf(key.kind, line.signature) ?? 0 };
    const answer = answers.find(({ witness }) => witness.key === key)!;
    return "line" in answer ? { name, time: answer.time } : { name, fault: answer.fault };
  });
}

/** Another round is needed only when another publisher signed meanwhile. */
const maxRounds = 16;

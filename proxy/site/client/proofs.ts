import { bytesOf, hashFrom, toHex } from "../../../snapshots/format/bytes.ts";
import { isCount } from "../../../snapshots/format/hash-trees.ts";
import { identityOf } from "../../../snapshots/format/identity.ts";
import { checkpointIn, verifyCheckpoint } from "./checkpoint.ts";
import type { HistoricalMarket, MarketProof, ProtocolScore, ScoreProof } from "./declarations.d.ts";
import { check } from "./errors.ts";
import { archiveFrom, type CopyRoot, webSha256, webTrees } from "./trees.ts";
import { timeIn } from "./trusted.ts";

const { headFrom, leafHash, rootFrom } = webTrees;

function objectIn(text: string) {
  let found = null;
  try {
    found = JSON.parse(text);
  } catch {}
  check(typeof found === "object" && found !== null);
  return found;
}

/** What the log says of a commit. */
export interface Entry {
  commit: number;
  feedVersion: string;
  snapshotId: string;
  archiveRoot: string;
  scoresRoot: string;
  indexRoot: string;
  counts: { markets: number; protocols: number };
  publishedAt: string;
  /** Commits that were taken back. */
  withdrawn: [first: number, last: number][];
  /** SHA-256 of the commit record. */
  record: string;
}

/** The id of the snapshot that an entry of the log is about (snapshots/SPEC.md, "Roots"). */
async function snapshotIdOf(entry: Entry): Promise<string> {
  const { feedVersion, counts, archiveRoot, scoresRoot } = entry;
  const isOne =
    [counts?.markets, counts?.protocols].every(isCount) && hashFrom(archiveRoot) && hashFrom(scoresRoot);
  check(isOne && /^[!-~]+$/.test(feedVersion));
  return toHex(await webSha256(bytesOf(identityOf(entry))));
}

/**
 * What you know when you check a proof: the `snapshotId` if you hold one that you trust; the publisher's `key`, or a
 * policy with witnesses (c2sp.org/tlog-policy) in its place, to have the checkpoint's signatures checked too. Without
 * them, a proof only shows that the answer agrees with itself. `asOf` is what you asked with. Without it and a
 * `snapshotId`, the entry must be the last one of the checkpoint's log.
 */
export interface Known {
  snapshotId?: string | undefined;
  key?: string | readonly string[] | undefined;
  asOf?: string | undefined;
}

/** The same of a market's proof, and the id that you asked for. */
export interface KnownMarket extends Known {
  id?: string;
}

/** The same of a score's proof, and the slug that you asked for. */
export interface KnownScore extends Known {
  slug?: string;
}

/** @internal Checks that the log has the entry of an answer, and that it is about the answer's snapshot. */
export async function verifyEntry(
  {
    entry,
    snapshotId,
    commit,
    checkpoint,
    proof,
  }: Pick<MarketProof, "entry" | "snapshotId" | "commit" | "checkpoint"> & {
    proof: { inclusion: readonly string[] | null };
  },
  known: Known,
): Promise<Entry> {
  check(typeof entry === "string" && proof);
  const said: Entry = objectIn(entry);
  const found = await snapshotIdOf(said);
  check(
    said.commit === commit && said.snapshotId === snapshotId && found === snapshotId,
    "The entry is of another snapshot.",
  );
  const { key, asOf } = known;
  check((known.snapshotId ?? found) === found, "The proof is about another snapshot.");
  const time = asOf === undefined ? undefined : timeIn(asOf);
  if (time !== undefined) {
    const meant = Number.isNaN(time) ? found === asOf : Date.parse(said.publishedAt) <= time;
    check(meant, `The entry is of snapshot ${found}, published ${said.publishedAt}, not of ${asOf}.`);
  }
  const tree =
    key !== undefined ? await verifyCheckpoint(checkpoint, key) : checkpoint && checkpointIn(checkpoint);
  if (!tree) return said;
  const place = { index: commit - 1, size: tree.size, path: proof.inclusion };
  const head = await headFrom(leafHash(bytesOf(entry)), place);
  check(head && toHex(head) === tree.root, "The log does not have this entry.");
  // Its last entry is never withdrawn: a rollback is an entry of its own.
  check(
    commit === tree.size || asOf !== undefined || known.snapshotId !== undefined,
    `The answer is of commit ${commit}, and the log goes on to commit ${tree.size}. For an older one, say which.`,
  );
  return said;
}

/**
 * Checks that a market belongs to its snapshot, and that snapshot to the publisher's log, and returns its record. `id`
 * is the one you asked for. Throws as verifyCheckpoint does.
 */
export async function verifyProof(
  answer: MarketProof,
  { id, ...known }: KnownMarket = {},
): Promise<HistoricalMarket> {
  const { page, segment, archive } = answer.proof ?? {};
  check(typeof answer.market === "string" && page && segment && archive);
  const root = await archiveFrom(webTrees, answer.market, answer.proof);
  const { archiveRoot, counts } = await verifyEntry(answer, known);
  const belongs = root && toHex(root) === archiveRoot && archive.markets === counts.markets;
  check(belongs, "The market does not belong to the snapshot.");
  const record = objectIn(answer.market);
  check(id === undefined || record.id === id, "The proof is about another market.");
  return record;
}

/** The same for the score of a protocol. `slug` is the one you asked for. */
export async function verifyScoreProof(
  answer: ScoreProof,
  { slug, ...known }: KnownScore = {},
): Promise<ProtocolScore> {
  const { score } = answer.proof ?? {};
  check(typeof answer.score === "string" && score);
  const record = objectIn(answer.score);
  const line = `score ${record.slug} ${toHex(await webSha256(bytesOf(answer.score)))}`;
  const root = await rootFrom("scores", leafHash(bytesOf(line)), { ...score, markets: score.size });
  const { scoresRoot } = await verifyEntry(answer, known);
  check(root && toHex(root) === scoresRoot, "The score does not belong to the snapshot.");
  check(slug === undefined || record.slug === slug, "The proof is about another protocol.");
  return record;
}

/**
 * Checks that a copy's root and number of markets are those of the snapshot of a proof, and that the publisher's log
 * has that. Throws as verifyCheckpoint does.
 */
export async function verifyCopy(
  answer: MarketProof,
  { archiveRoot, markets }: CopyRoot,
  known: Known = {},
): Promise<Entry> {
  const entry = await verifyEntry(answer, known);
  check(
    entry.archiveRoot === archiveRoot && entry.counts.markets === markets,
    `The copy is not the archive of snapshot ${entry.snapshotId}: it has ${markets} markets and the root ` +
      `${archiveRoot}.`,
  );
  return entry;
}

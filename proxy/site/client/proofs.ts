import type { MarketProof, ScoreProof } from "../../../schemas/envelopes.ts";
import type { HistoricalMarket, ProtocolScore } from "../../../schemas/records.ts";
import { bytesOf, hashFrom, toHex } from "../../../snapshots/format/bytes.ts";
import { identityOf, isCount } from "../../../snapshots/format/hash-trees.ts";
import {
  checkpointIn as checkpointOf,
  identified,
  isQuorum,
  keyIn,
  matching,
  NoteError,
  NoteKeyError,
  type Policy,
  parseNote,
  policyIn,
  policyOf,
  signedIn,
  type VerifierKey,
} from "../../../snapshots/format/note.ts";
import { ApiError, check, IntegrityError } from "./errors.ts";
import { archiveFrom, ownSha256, trees } from "./trees.ts";
import type {
  CheckedHead,
  CheckpointHead,
  CopyRoot,
  Entry,
  Known,
  KnownMarket,
  KnownScore,
} from "./types.ts";

/**
 * The publisher signed two logs of which neither is the beginning of the other, or what is served is older than what
 * was seen before. Keep both checkpoints: together they show it to everybody.
 */
export class ForkedLogError extends IntegrityError {
  override name = "ForkedLogError";
  override code = "FORKED_LOG";
  /** The one seen before, and the one that came now. */
  declare checkpoints: readonly [string, string];

  constructor(before: string, after: string) {
    const [old, now] = [before, after]
      .map(checkpointIn)
      .map(({ size, root }) => `${size} commits with root ${root}`);
    super(`The log does not go on from what was seen of it: ${old}, before; ${now}, now.`);
    this.checkpoints = [before, after];
  }
}

/**
 * What a checkpoint says (c2sp.org/tlog-checkpoint): the log's origin, how many commits it has, and the root of its
 * tree. Checks no signature. Throws IntegrityError.
 */
export function checkpointIn(checkpoint: string | null): CheckpointHead {
  return noteIn(checkpoint).head;
}

/** A checkpoint's note, and what it says. */
function noteIn(checkpoint: string | null) {
  check(typeof checkpoint === "string", "There is no checkpoint: nobody signed the log.");
  try {
    const note = parseNote(checkpoint);
    const parsed = checkpointOf(note.text);
    check(parsed && !parsed.extended);
    const { origin, size, head } = parsed;
    check(/^\P{Cc}+$/u.test(origin) && size > 0 && size < 2 ** 31);
    return { ...note, head: { origin, size, root: toHex(head) } };
  } catch (error) {
    check(!(error instanceof NoteError));
    throw error;
  }
}

/** Whose checkpoints are believed, by a policy or by keys of logs. Throws ApiError, which names a policy's line. */
async function policyBy(keys: string | readonly string[]): Promise<Policy> {
  try {
    const policy = isPolicy(keys)
      ? policyIn(bytesOf(keys), {
          keyIn: (text) => keyIn(text),
          wrong: (line, reason) => unusable(`Line ${line} of the policy is wrong: ${reason}.`),
        })
      : policyOf([keys].flat().map((key) => keyIn(String(key))));
    if (!policy || (isPolicy(keys) && policy.logs.length === 0))
      throw unusable("The policy has no quorum line, or no log.");
    // Parsing is synchronous, and Web Crypto hashes asynchronously.
    for (const { key } of [...policy.logs, ...policy.witnesses])
      matching(key, toHex(await ownSha256(identified(key))).slice(0, 8));
    if (policy.logs.some(({ key }) => key.kind === "cosignature-ed25519"))
      throw unusable("A key of a witness stands in the place of a log's key.");
    return policy;
  } catch (error) {
    if (!(error instanceof NoteKeyError)) throw error;
    throw unusable("This is no key as it was given out, NAME+ID+BASE64; copy it again, whole.");
  }
}

/** @internal Whether keys are a policy. */
export const isPolicy = (keys: unknown): keys is string => typeof keys === "string" && /\s/.test(keys.trim());

/** A key or a policy of the caller cannot be used, for which no answer is to blame. */
const unusable = (detail: string) =>
  new ApiError("INVALID_PARAMETER", detail, { title: "The key or policy cannot be used", parameter: "key" });

/**
 * False for a key that the platform cannot check. Throws IntegrityError when the key did not sign the text, and a
 * DOMException in browsers without Ed25519.
 */
async function isSigned(key: VerifierKey, text: string, own: Uint8Array<ArrayBuffer>): Promise<boolean> {
  const signed = signedIn(key, text, own);
  check(signed);
  const quantum = key.kind === "ml-dsa-44";
  const [algorithm, format] = quantum ? ["ML-DSA-44", "raw-public" as "raw"] : ["Ed25519", "raw" as const];
  const imported = crypto.subtle.importKey(format, key.raw, algorithm, false, ["verify"]);
  const publicKey = await (quantum ? imported.catch(() => undefined) : imported);
  if (!publicKey) return false;
  const good = await crypto.subtle.verify(algorithm, publicKey, signed.signature, signed.message);
  check(good, "The signature of the checkpoint is wrong.");
  return true;
}

/**
 * Checks that a checkpoint satisfies a policy (the text of c2sp.org/tlog-policy), or that one of these keys, each
 * `NAME+ID+BASE64`, signed it, and returns what it says and how many of the policy's witnesses did. Cosignatures that
 * the platform cannot check do not count: those with ML-DSA-44 outside Node 24.7 and later. Throws IntegrityError;
 * ApiError INVALID_PARAMETER when a key or the policy is not one; a DOMException in browsers without Ed25519.
 */
export async function verifyCheckpoint(
  checkpoint: string | null,
  keys: string | readonly string[],
): Promise<CheckedHead> {
  const { text, signatures, head } = noteIn(checkpoint);
  const policy = await policyBy(keys);
  const { logs, witnesses } = policy;
  const signers = new Set<VerifierKey>();
  for (const { name, id, signature } of signatures) {
    const signer = [...logs, ...witnesses].find(({ key }) => key.name === name && key.id === id);
    if (signer && !signers.has(signer.key) && (await isSigned(signer.key, text, signature)))
      signers.add(signer.key);
  }
  check(
    logs.some(({ key }) => key.name === head.origin && signers.has(key)),
    "None of the keys signed the checkpoint.",
  );
  check(isQuorum(policy, signers), "Too few witnesses cosigned the checkpoint.");
  return { ...head, cosigners: witnesses.filter(({ key }) => signers.has(key)).length };
}

function objectIn(text: string) {
  let value = null;
  try {
    value = JSON.parse(text);
  } catch {}
  check(typeof value === "object" && value !== null);
  return value;
}

/** The id of the snapshot that an entry of the log is about (snapshots/SPEC.md, "Roots"). */
async function snapshotIdOf(entry: Entry): Promise<string> {
  const { feedVersion, counts, archiveRoot, scoresRoot } = entry;
  const isOne =
    [counts?.markets, counts?.protocols].every(isCount) && hashFrom(archiveRoot) && hashFrom(scoresRoot);
  check(isOne && /^[!-~]+$/.test(feedVersion));
  return toHex(await ownSha256(bytesOf(identityOf(entry))));
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
  const logEntry: Entry = objectIn(entry);
  const id = await snapshotIdOf(logEntry);
  check(
    logEntry.commit === commit && logEntry.snapshotId === snapshotId && id === snapshotId,
    "The entry is of another snapshot.",
  );
  const { key, asOf } = known;
  check((known.snapshotId ?? id) === id, "The proof is about another snapshot.");
  const time = asOf === undefined ? undefined : timeIn(asOf);
  if (time !== undefined) {
    const matches = Number.isNaN(time) ? id === asOf : Date.parse(logEntry.publishedAt) <= time;
    check(matches, `The entry is of snapshot ${id}, published ${logEntry.publishedAt}, not of ${asOf}.`);
  }
  const tree =
    key !== undefined ? await verifyCheckpoint(checkpoint, key) : checkpoint && checkpointIn(checkpoint);
  if (!tree) return logEntry;
  const place = { index: commit - 1, size: tree.size, path: proof.inclusion };
  const head = await trees.headFrom(trees.leafHash(bytesOf(entry)), place);
  check(head && toHex(head) === tree.root, "The log does not have this entry.");
  // Its last entry is never withdrawn: a rollback is an entry of its own.
  check(
    commit === tree.size || asOf !== undefined || known.snapshotId !== undefined,
    `The answer is of commit ${commit}, and the log goes on to commit ${tree.size}. For an older one, say which.`,
  );
  return logEntry;
}

/** @internal The latest time that `asOf` means; NaN where it is a snapshot's id. */
export const timeIn = (asOf: string): number =>
  /^[0-9a-f]{64}$/.test(asOf) ? Number.NaN : Date.parse(asOf.length > 10 ? asOf : `${asOf}T23:59:59.999Z`);

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
  const root = await archiveFrom(answer.market, answer.proof);
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
  const line = `score ${record.slug} ${toHex(await ownSha256(bytesOf(answer.score)))}`;
  const root = await trees.rootFrom("scores", trees.leafHash(bytesOf(line)), {
    ...score,
    markets: score.size,
  });
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

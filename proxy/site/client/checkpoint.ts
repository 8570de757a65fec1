import { bytesOf, toHex } from "../../../snapshots/format/bytes.ts";
import {
  checkpointIn as checkpointOf,
  NoteError,
  parseNote,
  signedIn,
} from "../../../snapshots/format/note.ts";
import {
  identified,
  keyIn,
  matching,
  NoteKeyError,
  type VerifierKey,
} from "../../../snapshots/format/note-keys.ts";
import { isQuorum, type Policy, policyIn, policyOf } from "../../../snapshots/format/policy.ts";
import { ApiError, check, IntegrityError } from "./errors.ts";
import { webSha256 } from "./trees.ts";
import { isPolicy } from "./trusted.ts";

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

/** What a checkpoint says of its log. */
export interface CheckpointHead {
  origin: string;
  size: number;
  root: string;
}

/** The same of one whose signatures were checked, and how many witnesses of the policy cosigned it. */
export interface CheckedHead extends CheckpointHead {
  cosigners: number;
}

/**
 * What a checkpoint says (c2sp.org/tlog-checkpoint): the log's origin, how many commits it has, and the root of its
 * tree. Checks no signature. Throws IntegrityError.
 */
export function checkpointIn(checkpoint: string | null): CheckpointHead {
  return noteIn(checkpoint).said;
}

/** A checkpoint's note, and what it says. */
function noteIn(checkpoint: string | null) {
  check(typeof checkpoint === "string", "There is no checkpoint: nobody signed the log.");
  try {
    const note = parseNote(checkpoint);
    const said = checkpointOf(note.text);
    check(said && !said.extended);
    const { origin, size, head } = said;
    check(/^\P{Cc}+$/u.test(origin) && size > 0 && size < 2 ** 31);
    return { ...note, said: { origin, size, root: toHex(head) } };
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
    // All is read at once, and Web Crypto hashes by and by.
    for (const { key } of [...policy.logs, ...policy.witnesses])
      matching(key, toHex(await webSha256(identified(key))).slice(0, 8));
    if (policy.logs.some(({ key }) => key.kind === "cosignature-ed25519"))
      throw unusable("A key of a witness stands in the place of a log's key.");
    return policy;
  } catch (error) {
    if (!(error instanceof NoteKeyError)) throw error;
    throw unusable("This is no key as it was given out, NAME+ID+BASE64; copy it again, whole.");
  }
}

/** A key or a policy of the caller cannot be used, for which no answer is to blame. */
const unusable = (detail: string) =>
  new ApiError("INVALID_PARAMETER", detail, { title: "The key or policy cannot be used", parameter: "key" });

/**
 * Whether a key that the platform has signed a text so. Throws IntegrityError when it did not, and a DOMException in
 * browsers without Ed25519.
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
 * the platform cannot check do not count: those with ML-DSA-44 outside Node 24.7 and later. Throws IntegrityError; ApiError
 * INVALID_PARAMETER when a key or the policy is not one; a DOMException in browsers without Ed25519.
 */
export async function verifyCheckpoint(
  checkpoint: string | null,
  keys: string | readonly string[],
): Promise<CheckedHead> {
  const { text, signatures, said } = noteIn(checkpoint);
  const policy = await policyBy(keys);
  const { logs, witnesses } = policy;
  const signers = new Set<VerifierKey>();
  for (const { name, id, signature } of signatures) {
    const known = [...logs, ...witnesses].find(({ key }) => key.name === name && key.id === id);
    if (known && !signers.has(known.key) && (await isSigned(known.key, text, signature)))
      signers.add(known.key);
  }
  check(
    logs.some(({ key }) => key.name === said.origin && signers.has(key)),
    "None of the keys signed the checkpoint.",
  );
  check(isQuorum(policy, signers), "Too few witnesses cosigned the checkpoint.");
  return { ...said, cosigners: witnesses.filter(({ key }) => signers.has(key)).length };
}

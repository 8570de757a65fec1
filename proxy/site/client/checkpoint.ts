import { bytesOf, fromBase64, toHex } from "../../../snapshots/format/bytes.ts";
import { joined } from "../../../snapshots/format/hash-trees.ts";
import {
  checkpointIn as checkpointOf,
  cosignedIn,
  NoteError,
  parseNote,
} from "../../../snapshots/format/note.ts";
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
  check(typeof checkpoint === "string", "There is no checkpoint: nobody signed the log.");
  const said = checkpointOf(noteIn(checkpoint).text);
  check(said && !said.extended && /^\P{Cc}+$/u.test(said.origin) && said.size > 0 && said.size < 2 ** 31);
  return { origin: said.origin, size: said.size, root: toHex(said.head) };
}

function noteIn(checkpoint: string) {
  try {
    return parseNote(checkpoint);
  } catch (error) {
    check(!(error instanceof NoteError));
    throw error;
  }
}

/**
 * A public key of a log or a witness, as c2sp.org/signed-note and tlog-cosignature have them. `kind` is 1 for Ed25519,
 * 4 for cosignatures with it, and 6 for those with ML-DSA-44.
 * @internal
 */
interface NoteKey {
  name: string;
  id: string;
  kind: number;
  raw: Uint8Array<ArrayBuffer>;
}

/** Refuses a key or a policy of the caller, for which no answer is to blame. */
function usable(holds: unknown, detail: string): asserts holds {
  const title = "The key or policy cannot be used";
  if (!holds) throw new ApiError("INVALID_PARAMETER", detail, { title, parameter: "key" });
}

/** Reads `NAME+ID+BASE64`. */
async function noteKey(text: string): Promise<NoteKey> {
  const [, name = "", id = "", encoded = ""] = /^([^\s+]+)\+([0-9a-f]{8})\+(\S+)$/.exec(text) ?? [];
  const bytes = fromBase64(encoded) ?? new Uint8Array();
  const named = toHex(await webSha256(joined([bytesOf(`${name}\n`), bytes]))).slice(0, 8);
  const [kind = 0] = bytes;
  usable(
    named === id && bytes.length === { 1: 33, 4: 33, 6: 1313 }[kind],
    "This is no key as it was given out, NAME+ID+BASE64; copy it again, whole.",
  );
  return { name, id, kind, raw: bytes.slice(1) };
}

/** @internal Who must have cosigned a checkpoint: a witness, or so many of these. */
type Quorum = { key: NoteKey } | { least: number; members: Quorum[] };

/** Reads a policy (c2sp.org/tlog-policy). Throws ApiError that names the line. */
async function policyIn(text: string): Promise<{ logs: NoteKey[]; quorum: Quorum | null }> {
  const logs: NoteKey[] = [];
  const named = new Map<string, Quorum>();
  // What may stand in one place alone: the keys of witnesses, and the names of members.
  const members = new Set<string>();
  let quorum: Quorum | null | undefined;
  for (const [index, line] of text.split("\n").entries()) {
    const need = (holds: unknown) =>
      usable(holds, `Line ${index + 1} of the policy is wrong: ${line.slice(0, 80)}`);
    // Control characters, in comments too.
    need(/^[\t\x20-\x7e\x80-\uffff]*$/.test(line));
    const [keyword = "", ...items] = line.split(/[ \t]+/).filter((item) => item);
    if (!keyword || keyword.startsWith("#")) continue;
    const [name = "", second = "", ...others] = items;
    if (keyword === "log") {
      need(name && items.length < 3);
      logs.push(await noteKey(name));
    } else if (keyword === "witness") {
      need(second && items.length < 4 && name !== "none" && !named.has(name));
      const key = await noteKey(second);
      need(key.kind !== 1 && !members.has(toHex(key.raw)));
      members.add(toHex(key.raw));
      named.set(name, { key });
    } else if (keyword === "group") {
      const found = others.flatMap((member) => named.get(member) ?? []);
      const least = second === "all" ? found.length : second === "any" ? 1 : Number(second);
      need(/^(all|any|[1-9]\d*)$/.test(second));
      need(found.length === others.length && new Set(others).size === others.length && name !== "none");
      need(
        least >= 1 && least <= found.length && !named.has(name) && !others.some((each) => members.has(each)),
      );
      for (const member of others) members.add(member);
      named.set(name, { least, members: found });
    } else {
      need(keyword === "quorum" && items.length === 1 && quorum === undefined);
      quorum = name === "none" ? null : named.get(name);
      need(quorum !== undefined);
    }
  }
  usable(quorum !== undefined && logs.length > 0, "The policy has no quorum line, or no log.");
  return { logs, quorum };
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
  const said = checkpointIn(checkpoint);
  const { text, signatures } = noteIn(String(checkpoint));
  const signed = async (key: NoteKey): Promise<boolean> => {
    const { name, id, kind, raw } = key;
    const own = signatures.find((each) => each.name === name && each.id === id);
    if (!own) return false;
    const made =
      kind === 1
        ? { message: bytesOf(text), signature: own.signature }
        : cosignedIn(text, own.signature, kind === 6 ? name : undefined);
    check(made);
    const algorithm = kind === 6 ? "ML-DSA-44" : "Ed25519";
    const format = (kind === 6 ? "raw-public" : "raw") as "raw";
    const imported = crypto.subtle.importKey(format, raw, algorithm, false, ["verify"]);
    const publicKey = await (kind === 6 ? imported.catch(() => undefined) : imported);
    if (!publicKey) return false;
    const good = await crypto.subtle.verify(algorithm, publicKey, made.signature, made.message);
    check(good, "The signature of the checkpoint is wrong.");
    return true;
  };
  const { logs, quorum } = isPolicy(keys)
    ? await policyIn(keys)
    : { logs: await Promise.all([keys].flat().map(noteKey)), quorum: null };
  usable(
    logs.every(({ kind }) => kind !== 4),
    "A key of a witness stands in the place of a log's key.",
  );
  let counts = false;
  for (const key of logs) counts ||= key.name === said.origin && (await signed(key));
  check(counts, "None of the keys signed the checkpoint.");
  let cosigners = 0;
  const reached = async (member: Quorum): Promise<boolean> => {
    if ("key" in member) {
      const did = await signed(member.key);
      cosigners += Number(did);
      return did;
    }
    const found = await Promise.all(member.members.map(reached));
    return found.filter((each) => each).length >= member.least;
  };
  check(!quorum || (await reached(quorum)), "Too few witnesses cosigned the checkpoint.");
  return { ...said, cosigners };
}

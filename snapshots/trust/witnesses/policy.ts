import { readFile } from "node:fs/promises";
import { kindName, type Note, NoteError, parseNote, type VerifierKey } from "../../format/note.ts";
import { isQuorum, type Policy, policyIn, policyOf, type Witness } from "../../format/policy.ts";
import { unlessSync } from "../../store/errors.ts";
import { inParallel } from "../../store/in-parallel.ts";
import { layout } from "../../store/layout.ts";
import type { Storage } from "../../store/storage.ts";
import { keyFileError, parsed, parseVerifierKey, readTrustedKeys, unusable } from "../notes/note-keys.ts";
import { checkSignature, openNote, readNote, timeOf } from "../notes/signed-note.ts";

const maxBytes = 1024 * 1024;

/** Reads the file of a policy. Throws KEY_FILE, which names file and line. */
export async function readPolicy(path: string): Promise<Policy> {
  const bytes = await readFile(path).catch((error) => {
    throw unusable(path, "read", error);
  });
  return parsePolicy(bytes, path);
}

/**
 * Whose checkpoints a reader believes, by the file of a policy or that of public keys; undefined where neither is
 * named. Throws KEY_FILE, also when both are.
 */
export async function believedPolicy({
  policy: file,
  keys,
}: Partial<Record<"policy" | "keys", string | undefined>>): Promise<Policy | undefined> {
  if (!file) return keys ? policyOf(await readTrustedKeys(keys)) : undefined;
  if (keys)
    throw keyFileError(
      "a policy (TRUST_POLICY) names the keys too, so neither --trusted-key nor TRUSTED_KEYS goes with it",
    );
  const policy = await readPolicy(file);
  if (policy.logs.length > 0) return policy;
  throw keyFileError(`${file} names no log; "log VKEY" does, where VKEY is the content of a .pub file`);
}

/** Reads the text of a policy; `path` is what errors call it. */
export function parsePolicy(bytes: Uint8Array, path: string): Policy {
  if (bytes.length > maxBytes) throw keyFileError(`${path} is no policy: it has more than ${maxBytes} bytes`);
  const policy = policyIn(bytes, {
    keyIn: (text, line) => parsed(`${path}, line ${line}`, () => parseVerifierKey(text)),
    wrong: (line, reason) => keyFileError(`${path}, line ${line}: ${reason}`),
  });
  if (policy) return policy;
  throw keyFileError(`${path} has no quorum line; "quorum none" asks for no witness`);
}

/** What a policy makes of a checkpoint that one of its logs signed. */
export interface Judged {
  /** Why the cosignatures are not enough; undefined when they are. */
  lacking: string | undefined;
  /** The note with the checked signatures alone. */
  note: string;
}

/**
 * Checks who signed a checkpoint. Throws NoteError when it is malformed, no log did, or a known key's signature is
 * wrong.
 */
export function judgeNote(policy: Policy, note: string): Judged {
  const { logs, witnesses } = policy;
  const keys = [...logs, ...witnesses].map(({ key }) => key);
  const { text, signers, unchecked, note: checked } = openNote(note, keys);
  const origin = text.slice(0, text.indexOf("\n"));
  if (!logs.some(({ key }) => key.name === origin && signers.includes(key)))
    throw new NoteError(`no log of the policy called ${origin} signed it`);
  const isEnough = isQuorum(policy, new Set(signers));
  return { lacking: isEnough ? undefined : whyLacking(policy, signers, unchecked), note: checked };
}

function whyLacking(
  { quorum, witnesses }: Policy,
  signers: readonly VerifierKey[],
  unchecked: readonly VerifierKey[],
): string {
  const did = witnesses.filter(({ key }) => signers.includes(key)).map(({ name }) => name);
  const cannot = witnesses.filter(({ key }) => unchecked.includes(key));
  const others = witnesses.filter((witness) => !did.includes(witness.name) && !cannot.includes(witness));
  const parts = [
    `${did.join(", ") || "no witness"} cosigned`,
    ...(others.length > 0 ? [`${others.map(({ name }) => name).join(", ")} did not`] : []),
    ...cannot.map(
      ({ name, key }) => `${name} did with ${kindName(key.kind)}, which this platform cannot check`,
    ),
  ];
  return `the quorum ${quorum?.name} is not reached: ${parts.join("; ")}`;
}

export interface Cosigned {
  name: string;
  /** ISO 8601; null where the signature tells none. */
  time: string | null;
}

/**
 * Who cosigned the checkpoints of these sizes, where the store has them. Witnesses that are given are checked and
 * called as their policy calls them; without any it is what the notes say, by the names of the keys and unchecked.
 */
export async function cosignersOf(
  storage: Storage,
  sizes: readonly number[],
  witnesses: readonly Witness[],
): Promise<Map<number, Cosigned[]>> {
  const bySize = new Map<number, Cosigned[]>();
  await inParallel(sizes, async (size) => {
    const note = await readNote(storage, layout.logCheckpointOf(size));
    if (note === undefined) return;
    bySize.set(size, unlessSync(NoteError, () => cosignersIn(parseNote(note), witnesses)) ?? []);
  });
  return bySize;
}

function cosignersIn({ text, signatures }: Note, witnesses: readonly Witness[]): Cosigned[] {
  const origin = text.slice(0, text.indexOf("\n"));
  if (witnesses.length === 0)
    return signatures.flatMap(({ name }) => (name === origin ? [] : [{ name, time: null }]));
  return witnesses.flatMap(({ name, key }) => {
    const own = signatures.find((each) => each.name === key.name && each.id === key.id);
    if (!own || checkSignature(key, text, own.signature) !== "right") return [];
    return [{ name, time: new Date((timeOf(key.kind, own.signature) ?? 0) * 1000).toISOString() }];
  });
}

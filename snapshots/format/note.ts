import { shorten } from "../../schemas/errors.ts";
import { bytesOf, fromBase64, fromOctets, textOf, toHex, toOctets } from "./bytes.ts";
import { joined } from "./hash-trees.ts";

// Texts of keys, notes, checkpoints and policies, taken apart. Nothing here hashes or checks a signature, since
// browsers can do that only asynchronously.

/** A key's text is not as c2sp.org/signed-note and its first implementation, Go's note, write it. */
export class NoteKeyError extends Error {
  override readonly name = "NoteKeyError";
}

/** How keys sign: a note as it is, or a checkpoint together with the time at which it was seen (tlog-cosignature). */
const kinds = {
  ed25519: { type: 0x01, called: "Ed25519", bytes: 32 },
  "cosignature-ed25519": { type: 0x04, called: "Ed25519 cosignature", bytes: 32 },
  "ml-dsa-44": { type: 0x06, called: "ML-DSA-44", bytes: 1312 },
} as const;

export type KeyKind = keyof typeof kinds;

/** A public key that signatures are checked with. Name and id together identify it. */
export interface VerifierKey {
  readonly name: string;
  /** 8 hex digits. */
  readonly id: string;
  readonly kind: KeyKind;
  /** The key itself: 32 bytes, or the 1,312 of ML-DSA-44. */
  readonly raw: Uint8Array<ArrayBuffer>;
}

/** Whether a key may be called so: without spaces, plus signs and what a terminal would not show. */
export function isKeyName(name: string): boolean {
  return /^[^\s\p{C}+]{1,200}$/u.test(name);
}

/** What keys of a kind are called in messages, such as "Ed25519". */
export function kindName(kind: KeyKind): string {
  return kinds[kind].called;
}

/**
 * Reads `NAME+ID+BASE64`, whose id is still to be checked: a public key, or a private one, which has `length` bytes.
 * Throws NoteKeyError, which never repeats the text.
 */
export function keyIn(text: string, length?: number): VerifierKey {
  const [, name = "", id = "", encoded = ""] = /^([^+]*)\+([0-9a-f]{8})\+(.*)$/s.exec(text) ?? [];
  if (!isKeyName(name)) throw new NoteKeyError("it is not of the form NAME+ID+BASE64");
  const bytes = fromBase64(encoded);
  if (!bytes) throw new NoteKeyError("its last part is not base64");
  const kind = (Object.keys(kinds) as KeyKind[]).find((each) => kinds[each].type === bytes[0]);
  if (!kind) throw new NoteKeyError("it is neither an Ed25519 nor an ML-DSA-44 key");
  const raw = bytes.slice(1);
  if (raw.length !== (length ?? kinds[kind].bytes))
    throw new NoteKeyError(`it is not an ${kindName(kind)} key: its last part has another length`);
  return { name, id, kind, raw };
}

/** What the last part of a key's text encodes. */
export const typed = (kind: KeyKind, bytes: Uint8Array) => Uint8Array.of(kinds[kind].type, ...bytes);

/** A key's id is the beginning of the SHA-256 of these bytes, which are good until the next call of `joined`. */
export const identified = ({ name, kind, raw }: Omit<VerifierKey, "id">) =>
  joined([bytesOf(`${name}\n`), typed(kind, raw)]);

/** Throws NoteKeyError unless the key has this id, which shows a key or a name that was mistyped. */
export function matching<Key extends VerifierKey>(key: Key, id: string): Key {
  if (key.id === id) return key;
  throw new NoteKeyError(`its id is ${key.id}, but that of this name and key is ${id}`);
}

/** A note is malformed, or no trusted key signed it. */
export class NoteError extends Error {
  override readonly name = "NoteError";
}

/** A note as c2sp.org/signed-note has it: a text, and who signed it. */
export interface Note {
  /** With its last line feed. */
  text: string;
  signatures: NoteSignature[];
}

/** A signature line, without its line feed. */
export interface NoteSignature {
  name: string;
  id: string;
  signature: Uint8Array<ArrayBuffer>;
  line: string;
}

// A log's own signatures and those of 32 witnesses have room: a line of ML-DSA-44 has 3.3 kB.
export const maxNoteBytes = 128 * 1024;
export const maxSignatures = 64;
const idBytes = 4;
const timeBytes = 8;

/** Takes a note apart and checks no signature. */
export function parseNote(note: string): Note {
  if (bytesOf(note).length > maxNoteBytes) throw new NoteError(`it has more than ${maxNoteBytes} bytes`);
  if (/[^\P{Cc}\n\x7f-\x9f]|\p{Cs}/u.test(note))
    throw new NoteError("it is not UTF-8 text without control characters");
  const cut = note.lastIndexOf("\n\n");
  if (cut < 0 || !note.endsWith("\n"))
    throw new NoteError("it is not a text, an empty line and lines of signatures");
  const lines = note.slice(cut + 2, -1).split("\n");
  if (lines.length > maxSignatures) throw new NoteError(`it has more than ${maxSignatures} signatures`);
  return { text: note.slice(0, cut + 1), signatures: lines.map(parseSignature) };
}

export function parseSignature(line: string): NoteSignature {
  const [, name = "", encoded = ""] = /^— ([^\s\u0085+]+) ([^ ]+)$/u.exec(line) ?? [];
  const bytes = fromBase64(encoded);
  if (!bytes || bytes.length <= idBytes)
    throw new NoteError("it has a line that is no signature behind the empty line");
  return { name, id: toHex(bytes.subarray(0, idBytes)), signature: bytes.slice(idBytes), line };
}

/** What the lines of a checkpoint say, and whether others follow them; undefined when the text is none. */
export function checkpointIn(text: string) {
  const [origin = "", size = "", root = "", ...others] = text.split("\n");
  const head = fromBase64(root);
  if (origin === "" || !/^(0|[1-9]\d{0,15})$/.test(size) || head?.length !== 32 || others.length === 0)
    return undefined;
  return { origin, size: Number(size), head, extended: others.length > 1 || others[0] !== "" };
}

type Signer = Pick<VerifierKey, "kind" | "name">;

/** What a cosigner signs (c2sp.org/tlog-cosignature); undefined when the text is no checkpoint. */
export function cosignedMessage({ kind, name: signer }: Signer, text: string, time: bigint) {
  const checkpoint = checkpointIn(text);
  if (!checkpoint) return undefined;
  if (kind !== "ml-dsa-44") return bytesOf(`cosignature/v1\ntime ${time}\n${text}`);
  const [name, origin] = [bytesOf(signer), bytesOf(checkpoint.origin)];
  // Extension lines are not signed: who read them would believe what nobody vouches for.
  if (checkpoint.extended || name.length > 255 || origin.length > 255) return undefined;
  const numbers = new DataView(new ArrayBuffer(24));
  numbers.setBigUint64(0, time);
  numbers.setBigUint64(16, BigInt(checkpoint.size));
  const [seconds, range] = [new Uint8Array(numbers.buffer, 0, 8), new Uint8Array(numbers.buffer, 8)];
  const parts = [[name.length], name, seconds, [origin.length], origin, range, checkpoint.head];
  return joined([bytesOf("subtree/v1\n\0"), ...parts]).slice();
}

/** The time of a cosignature, in seconds since 1970, which stands before it; undefined where none can be. */
export function cosignatureTime(signature: Uint8Array): bigint | undefined {
  if (signature.length <= timeBytes) return undefined;
  const time = new DataView(signature.buffer, signature.byteOffset).getBigInt64(0);
  return time < 0n ? undefined : time;
}

/** The message that a signature is about, and what signs it, without a cosignature's time; undefined where none can. */
export function signedIn(key: Signer, text: string, signature: Uint8Array<ArrayBuffer>) {
  if (key.kind === "ed25519") return { message: bytesOf(text), signature };
  const time = cosignatureTime(signature);
  const message = time === undefined ? undefined : cosignedMessage(key, text, time);
  return message && { message, signature: signature.subarray(timeBytes) };
}

export interface Witness {
  /** What the policy calls it; the key has a name of its own. */
  name: string;
  key: VerifierKey;
  /** The address below which `add-checkpoint` lies. */
  url: string | undefined;
}

/** A group counts as a witness when `least` of its members do. */
export interface Group {
  name: string;
  least: number;
  members: readonly (Witness | Group)[];
}

/** Whose checkpoints are believed, as c2sp.org/tlog-policy has it. */
export interface Policy {
  logs: readonly { key: VerifierKey; url: string | undefined }[];
  witnesses: readonly Witness[];
  /** Who must have cosigned a checkpoint; undefined for nobody. */
  quorum: Witness | Group | undefined;
}

/** A policy without witnesses. */
export function policyOf(keys: readonly VerifierKey[]): Policy {
  return { logs: keys.map((key) => ({ key, url: undefined })), witnesses: [], quorum: undefined };
}

/** Whether the witnesses of this policy who cosigned are enough. */
export function isQuorum({ quorum }: Policy, cosigners: ReadonlySet<VerifierKey>): boolean {
  const counts = (member: Witness | Group): boolean =>
    "key" in member ? cosigners.has(member.key) : member.members.filter(counts).length >= member.least;
  return quorum === undefined || counts(quorum);
}

/** The most logs, witnesses and groups each, as the specification recommends. Notes have room for their signatures. */
const most = 32;

/** How logs and witnesses sign where they do not with ML-DSA-44. */
const usualKind = { log: "ed25519", witness: "cosignature-ed25519" } as const;

/** How the public key in a line of a policy is read, and what is thrown when a line, counted from 1, is wrong. */
interface Reading {
  keyIn: (text: string, line: number) => VerifierKey;
  wrong: (line: number, reason: string) => Error;
}

const decoded = (octets: string) => textOf(fromOctets(octets));
const quoted = (octets: string) => JSON.stringify(shorten(decoded(octets)));

/** Reads the text of a policy; undefined when it has no quorum line. */
export function policyIn(bytes: Uint8Array, { keyIn, wrong }: Reading): Policy | undefined {
  const [logs, witnesses]: [Policy["logs"][number][], Witness[]] = [[], []];
  const named = new Map<string, Witness | Group>();
  const members = new Set<string>();
  let policy: Policy | undefined;
  let line = 0;
  const need: (holds: unknown, reason: string) => asserts holds = (holds, reason) => {
    if (!holds) throw wrong(line, reason);
  };
  const needRoom = (count: number) =>
    need(count < most, `there are more than ${most} logs, witnesses or groups`);
  const find = (name: string) => {
    const component = named.get(name);
    need(component, `${quoted(name)} is no witness or group defined before this line`);
    return component;
  };
  const define = (name: string, component: Witness | Group) => {
    need(name !== "none", '"none" is the name of the quorum without witnesses');
    need(!named.has(name), `${quoted(name)} is defined already`);
    named.set(name, component);
  };
  const signer = (role: "log" | "witness", others: Policy["logs"], vkey: string, url?: string) => {
    const key = keyIn(decoded(vkey), line);
    const kinds = [usualKind[role], "ml-dsa-44"] as const;
    const called = kinds.map(kindName).join(" or ");
    need(kinds.includes(key.kind), `a ${role} has a key of ${called}, not of ${kindName(key.kind)}`);
    const isKnown = others.some((other) => toHex(other.key.raw) === toHex(key.raw));
    need(!isKnown, `another ${role} has this key already`);
    needRoom(others.length);
    return { key, url: url && decoded(url) };
  };
  const readers: Record<string, (items: string[]) => void> = {
    log([vkey, url, ...more]) {
      need(vkey && more.length === 0, "a log is: log VKEY [URL]");
      logs.push(signer("log", logs, vkey, url));
    },
    witness([name, vkey, url, ...more]) {
      need(name && vkey && more.length === 0, "a witness is: witness NAME VKEY [URL]");
      const witness = { name: decoded(name), ...signer("witness", witnesses, vkey, url) };
      define(name, witness);
      witnesses.push(witness);
    },
    group([name, count, ...items]) {
      need(name && count && items.length > 0, "a group is: group NAME all|any|NUMBER MEMBER...");
      const components = items.map((item) => {
        const member = find(item);
        need(!members.has(item), `${quoted(item)} is a member already`);
        members.add(item);
        return member;
      });
      const least = count === "all" ? components.length : count === "any" ? 1 : Number(count);
      const reason = `${quoted(count)} is neither all, any nor a number from 1 to ${components.length}`;
      need(/^(all|any|[1-9]\d*)$/.test(count) && least <= components.length, reason);
      needRoom(named.size - witnesses.length);
      define(name, { name: decoded(name), least, members: components });
    },
    quorum([name, ...more]) {
      need(name && more.length === 0, "a quorum is: quorum NAME, or quorum none");
      need(!policy, "there is a quorum line already");
      policy = { logs, witnesses, quorum: name === "none" ? undefined : find(name) };
    },
  };
  // Names are octets to the specification, so that nobody needs Unicode to compare them: each is a character here.
  for (const octets of toOctets(bytes).split("\n")) {
    line += 1;
    const isAllowed = /^[\t\x20-\x7e\x80-\xff]*$/.test(octets);
    need(isAllowed, "it has a control character; lines end with a line feed alone");
    const [keyword, ...items] = octets.split(/[ \t]+/).filter((item) => item);
    if (!keyword || keyword.startsWith("#")) continue;
    const read = Object.hasOwn(readers, keyword) && readers[keyword];
    need(read, `${quoted(keyword)} is neither log, witness, group nor quorum`);
    read(items);
  }
  return policy;
}

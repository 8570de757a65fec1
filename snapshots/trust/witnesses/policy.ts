import { readFile } from "node:fs/promises";
import { shorten } from "../../store/errors.ts";
import { keyFileError, readTrustedKeys, unusable } from "../notes/key-files.ts";
import {
  type KeyKind,
  kindName,
  NoteKeyError,
  parseVerifierKey,
  type VerifierKey,
} from "../notes/note-keys.ts";

/** Who is known as a witness of logs. */
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

/** So many logs, witnesses and groups each, as the specification recommends; notes have room for so many signatures. */
const most = 32;
const maxBytes = 1024 * 1024;

const logKinds: readonly KeyKind[] = ["ed25519", "ml-dsa-44"];
const witnessKinds: readonly KeyKind[] = ["cosignature-ed25519", "ml-dsa-44"];

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

/** What a line is wrong about. */
class LineError extends Error {}

/** Reads the text of a policy; `path` is what errors call it. */
export function parsePolicy(bytes: Uint8Array, path: string): Policy {
  if (bytes.length > maxBytes) throw keyFileError(`${path} is no policy: it has more than ${maxBytes} bytes`);
  const parser = new Parser();
  // Names are octets to the specification, so that nobody needs Unicode to compare them: each is a character here.
  const lines = Buffer.from(bytes).toString("latin1").split("\n");
  for (const [index, line] of lines.entries()) {
    try {
      parser.read(line);
    } catch (error) {
      if (!(error instanceof LineError || error instanceof NoteKeyError)) throw error;
      throw keyFileError(`${path}, line ${index + 1}: ${error.message}`, { cause: error });
    }
  }
  return parser.policy(path);
}

const isAllowed = /^[\t\x20-\x7e\x80-\xff]*$/;
const shown = (octets: string) => Buffer.from(octets, "latin1").toString();
const quoted = (octets: string) => JSON.stringify(shorten(shown(octets)));

class Parser {
  readonly #logs: { key: VerifierKey; url: string | undefined }[] = [];
  readonly #witnesses: Witness[] = [];
  /** Witnesses and groups by their names. */
  readonly #named = new Map<string, Witness | Group>();
  readonly #members = new Set<string>();
  #quorum: { named: Witness | Group | undefined } | undefined;

  policy(path: string): Policy {
    if (!this.#quorum) throw keyFileError(`${path} has no quorum line; "quorum none" asks for no witness`);
    return { logs: this.#logs, witnesses: this.#witnesses, quorum: this.#quorum.named };
  }

  read(line: string): void {
    if (!isAllowed.test(line))
      throw new LineError("it has a control character; lines end with a line feed alone");
    const [keyword = "", ...items] = line.split(/[ \t]+/).filter((item) => item !== "");
    if (keyword === "" || keyword.startsWith("#")) return;
    if (keyword === "log") this.#readLog(items);
    else if (keyword === "witness") this.#readWitness(items);
    else if (keyword === "group") this.#readGroup(items);
    else if (keyword === "quorum") this.#readQuorum(items);
    else throw new LineError(`${quoted(keyword)} is neither log, witness, group nor quorum`);
  }

  #readLog([vkey, url, ...more]: string[]): void {
    if (vkey === undefined || more.length > 0) throw new LineError("a log is: log VKEY [URL]");
    const key = keyOf(vkey, logKinds, "log");
    requireOther(key, this.#logs, "log");
    this.#logs.push({ key, url: url && shown(url) });
  }

  #readWitness([name, vkey, url, ...more]: string[]): void {
    if (name === undefined || vkey === undefined || more.length > 0)
      throw new LineError("a witness is: witness NAME VKEY [URL]");
    const key = keyOf(vkey, witnessKinds, "witness");
    requireOther(key, this.#witnesses, "witness");
    const witness = { name: shown(name), key, url: url && shown(url) };
    this.#define(name, witness);
    this.#witnesses.push(witness);
  }

  #readGroup([name, count, ...members]: string[]): void {
    if (name === undefined || count === undefined || members.length === 0)
      throw new LineError("a group is: group NAME all|any|NUMBER MEMBER...");
    const named = members.map((member) => {
      const found = this.#find(member);
      if (this.#members.has(member)) throw new LineError(`${quoted(member)} is a member already`);
      this.#members.add(member);
      return found;
    });
    const least = count === "all" ? members.length : count === "any" ? 1 : Number(count);
    if (!/^(all|any|[1-9]\d*)$/.test(count) || least > members.length)
      throw new LineError(`${quoted(count)} is neither all, any nor a number from 1 to ${members.length}`);
    if (this.#named.size - this.#witnesses.length >= most) throw tooMany();
    this.#define(name, { name: shown(name), least, members: named });
  }

  #readQuorum([name, ...more]: string[]): void {
    if (name === undefined || more.length > 0)
      throw new LineError("a quorum is: quorum NAME, or quorum none");
    if (this.#quorum) throw new LineError("there is a quorum line already");
    this.#quorum = { named: name === "none" ? undefined : this.#find(name) };
  }

  #define(name: string, component: Witness | Group): void {
    if (name === "none") throw new LineError('"none" is the name of the quorum without witnesses');
    if (this.#named.has(name)) throw new LineError(`${quoted(name)} is defined already`);
    this.#named.set(name, component);
  }

  #find(name: string): Witness | Group {
    const found = this.#named.get(name);
    if (found) return found;
    throw new LineError(`${quoted(name)} is no witness or group defined before this line`);
  }
}

function keyOf(vkey: string, kinds: readonly KeyKind[], role: string): VerifierKey {
  const key = parseVerifierKey(shown(vkey));
  if (kinds.includes(key.kind)) return key;
  throw new LineError(
    `a ${role} has a key of ${kinds.map(kindName).join(" or ")}, not of ${kindName(key.kind)}`,
  );
}

/** Throws LineError when one of them has the key already, under whichever name. */
function requireOther(key: VerifierKey, known: readonly { key: VerifierKey }[], role: string): void {
  if (known.some((other) => other.key.raw.equals(key.raw)))
    throw new LineError(`another ${role} has this key already`);
  if (known.length >= most) throw tooMany();
}

const tooMany = () => new LineError(`there are more than ${most} logs, witnesses or groups`);

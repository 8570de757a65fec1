import { shorten } from "../../schemas/errors.ts";
import { fromOctets, textOf, toHex, toOctets } from "./bytes.ts";
import { kindName, type VerifierKey } from "./note.ts";

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

/** How logs and witnesses sign where they do not with ML-DSA-44. */
const usualKind = { log: "ed25519", witness: "cosignature-ed25519" } as const;

/** How the public key in a line of a policy is read, and what is thrown when a line, counted from 1, is wrong. */
interface Reading {
  keyIn: (text: string, line: number) => VerifierKey;
  wrong: (line: number, reason: string) => Error;
}

const shown = (octets: string) => textOf(fromOctets(octets));
const quoted = (octets: string) => JSON.stringify(shorten(shown(octets)));

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
  const needRoom = (known: number) =>
    need(known < most, `there are more than ${most} logs, witnesses or groups`);
  const find = (name: string) => {
    const found = named.get(name);
    need(found, `${quoted(name)} is no witness or group defined before this line`);
    return found;
  };
  const define = (name: string, component: Witness | Group) => {
    need(name !== "none", '"none" is the name of the quorum without witnesses');
    need(!named.has(name), `${quoted(name)} is defined already`);
    named.set(name, component);
  };
  const signer = (role: "log" | "witness", known: Policy["logs"], vkey: string, url?: string) => {
    const key = keyIn(shown(vkey), line);
    const kinds = [usualKind[role], "ml-dsa-44"] as const;
    const called = kinds.map(kindName).join(" or ");
    need(kinds.includes(key.kind), `a ${role} has a key of ${called}, not of ${kindName(key.kind)}`);
    const isKnown = known.some((other) => toHex(other.key.raw) === toHex(key.raw));
    need(!isKnown, `another ${role} has this key already`);
    needRoom(known.length);
    return { key, url: url && shown(url) };
  };
  const readers: Record<string, (items: string[]) => void> = {
    log([vkey, url, ...more]) {
      need(vkey && more.length === 0, "a log is: log VKEY [URL]");
      logs.push(signer("log", logs, vkey, url));
    },
    witness([name, vkey, url, ...more]) {
      need(name && vkey && more.length === 0, "a witness is: witness NAME VKEY [URL]");
      const witness = { name: shown(name), ...signer("witness", witnesses, vkey, url) };
      define(name, witness);
      witnesses.push(witness);
    },
    group([name, count, ...items]) {
      need(name && count && items.length > 0, "a group is: group NAME all|any|NUMBER MEMBER...");
      const found = items.map((item) => {
        const member = find(item);
        need(!members.has(item), `${quoted(item)} is a member already`);
        members.add(item);
        return member;
      });
      const least = count === "all" ? found.length : count === "any" ? 1 : Number(count);
      const reason = `${quoted(count)} is neither all, any nor a number from 1 to ${found.length}`;
      need(/^(all|any|[1-9]\d*)$/.test(count) && least <= found.length, reason);
      needRoom(named.size - witnesses.length);
      define(name, { name: shown(name), least, members: found });
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

import { isIP } from "node:net";
import ipaddr from "ipaddr.js";

type Address = ReturnType<typeof ipaddr.process>;

/** Whose word on forwarded addresses counts: that of the nearest `hops` peers, or of peers in `networks`. */
export type Trust = { hops: number } | { networks: [Address, number][] };

/**
 * Reads TRUST_PROXY: a number of hops, or networks in CIDR notation separated by commas. Throws with what is
 * wrong.
 */
export function parseTrust(text: string): Trust {
  if (/^\d{1,2}$/.test(text)) return { hops: Number(text) };
  return { networks: text.split(",").map((part) => parseNetwork(part.trim())) };
}

function parseNetwork(text: string): [Address, number] {
  const [host = "", bits = ""] = text.split("/");
  const version = isIP(host);
  const width = version === 4 ? 32 : 128;
  // /0 would let every caller name his own address; a mapped network means IPv4 and is to be written so.
  const valid = version !== 0 && /^\d{1,3}$/.test(bits) && Number(bits) >= 1 && Number(bits) <= width;
  if (!valid || /^::ffff:/i.test(host))
    throw new Error("a number of hops or networks such as 10.0.0.0/8,fd00::/8");
  return [ipaddr.parse(host), Number(bits)];
}

/**
 * The account a caller without a key is counted under: an IPv4 address or an IPv6 /64, taken from the
 * connection or, as far as the peers are trusted, from X-Forwarded-For read from its end. Never what an
 * untrusted peer claims.
 */
export function clientAccount(peer: string | undefined, forwarded: readonly string[], trust: Trust): string {
  let client = parseAddress(peer ?? "");
  if (!client) return "unknown";
  const claims = forwarded.flatMap((value) => value.split(",")).reverse();
  for (const [hop, claim] of claims.entries()) {
    if (!isTrusted(client, hop, trust)) break;
    const next = parseAddress(withoutPort(claim.trim()));
    // A trusted peer that passes on rubbish answers for it itself.
    if (!next) break;
    client = next;
  }
  return accountOf(client);
}

/** Whether an address is one of a private network, as a load balancer's is. */
export function isPrivate(peer: string | undefined): boolean {
  return ["private", "loopback", "uniqueLocal", "linkLocal"].includes(
    parseAddress(peer ?? "")?.range() ?? "",
  );
}

/** Some load balancers append the port: `192.0.2.1:4711`, `[2001:db8::1]:4711`. */
function withoutPort(claim: string): string {
  const [, bracketed, bare] = /^(?:\[([^\]]*)\](?::\d+)?|([^:]*):\d+)$/.exec(claim) ?? [];
  return bracketed ?? bare ?? claim;
}

function parseAddress(text: string): Address | undefined {
  const address = text.replace(/%.*$/s, ""); // fe80::1%eth0: the zone is this machine's own affair
  // The strict check first: the library also reads octal, hexadecimal and shortened forms, but not ::192.0.2.1.
  const version = isIP(address);
  if (version === 0) return undefined;
  return ipaddr.process(version === 4 ? address : new URL(`http://[${address}]`).hostname.slice(1, -1));
}

function isTrusted(address: Address, hop: number, trust: Trust): boolean {
  if ("hops" in trust) return hop < trust.hops;
  return trust.networks.some(([network, bits]) => matches(address, network, bits));
}

function matches(address: Address, network: Address, bits: number): boolean {
  if (address.kind() !== network.kind()) return false;
  const [a, b] = [address.toByteArray(), network.toByteArray()];
  return a.every((byte, index) => {
    const shared = Math.min(Math.max(bits - index * 8, 0), 8);
    return byte >> (8 - shared) === b[index]! >> (8 - shared);
  });
}

function accountOf(address: Address): string {
  if (address.kind() === "ipv4") return address.toString();
  return `${address.toNormalizedString().split(":").slice(0, 4).join(":")}::/64`;
}

import { BlockList, isIP } from "node:net";
import ipaddr from "ipaddr.js";

type Address = ReturnType<typeof ipaddr.process>;

/** The peers whose word about forwarded addresses is trusted: the nearest `hops`, or those in `networks`. */
export type Trust = { hops: number } | { networks: BlockList };

/**
 * Parses TRUST_PROXY: a number of hops, or comma-separated networks in CIDR notation. The message of its Error says
 * what is expected.
 */
export function parseTrust(text: string): Trust {
  if (/^\d{1,2}$/.test(text)) return { hops: Number(text) };
  const networks = new BlockList();
  for (const part of text.split(",")) {
    const [, host = "", bits = ""] = /^ *([^/]+)\/([1-9]\d*) *$/.exec(part) ?? [];
    const version = isIP(host);
    // With /0 every caller could choose its own address. An IPv4-mapped network must be written as IPv4.
    if (version === 0 || Number(bits) > (version === 4 ? 32 : 128) || /^::ffff:/i.test(host))
      throw new Error("a number of hops or networks such as 10.0.0.0/8,fd00::/8");
    networks.addSubnet(host, Number(bits), version === 4 ? "ipv4" : "ipv6");
  }
  return { networks };
}

/**
 * The account of a caller without a key: its IPv4 address or IPv6 /64. The address is the peer's or, as far as peers
 * are trusted, taken from X-Forwarded-For, read from its end. Claims of untrusted peers are ignored.
 */
export function clientAccount(peer: string | undefined, forwarded: readonly string[], trust: Trust): string {
  let client = parseAddress(peer ?? "");
  if (!client) return "unknown";
  const claims = forwarded.flatMap((value) => value.split(",")).reverse();
  for (const [hop, claim] of claims.entries()) {
    if (!isTrusted(client, hop, trust)) break;
    const next = parseAddress(withoutPort(claim.trim()));
    // A trusted peer that forwards something unreadable is counted itself.
    if (!next) break;
    client = next;
  }
  return accountOf(client);
}

const privateRanges = new Set<string | undefined>(["private", "loopback", "uniqueLocal", "linkLocal"]);

/** Whether an address belongs to a private network, as that of a load balancer usually does. */
export const isPrivate = (peer = ""): boolean => privateRanges.has(parseAddress(peer)?.range());

/** Removes the port that some load balancers append: `192.0.2.1:4711`, `[2001:db8::1]:4711`. */
function withoutPort(claim: string): string {
  const [, bracketed, bare] = /^(?:\[([^\]]*)\](?::\d+)?|([^:]*):\d+)$/.exec(claim) ?? [];
  return bracketed ?? bare ?? claim;
}

function parseAddress(text: string): Address | undefined {
  const address = text.replace(/%.*$/s, ""); // The zone of fe80::1%eth0 has a meaning on this machine only.
  // The strict check comes first because the library also accepts octal, hexadecimal and shortened forms. It does not
  // accept ::192.0.2.1, hence the detour over URL.
  const version = isIP(address);
  if (version === 0) return undefined;
  return ipaddr.process(version === 4 ? address : new URL(`http://[${address}]`).hostname.slice(1, -1));
}

const isTrusted = (address: Address, hop: number, trust: Trust): boolean =>
  "hops" in trust ? hop < trust.hops : trust.networks.check(address.toString(), address.kind());

function accountOf(address: Address): string {
  if (address.kind() === "ipv4") return address.toString();
  return `${address.toNormalizedString().split(":").slice(0, 4).join(":")}::/64`;
}

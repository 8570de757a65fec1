import type { IncomingMessage } from "node:http";
import { BlockList, isIP } from "node:net";
import ipaddr from "ipaddr.js";
import { Fault } from "../../schemas/errors.ts";
import { keyProtocolPrefix } from "../../schemas/headers.ts";
import { contactText } from "../../schemas/names.ts";
import { type Plan, plans } from "../../schemas/plans.ts";
import { type KeyRing, type KeyVerdict, keyFaults } from "../../snapshots/keys/keys.ts";
import { freeAccounts } from "../quota/counters.ts";
import type { Caller } from "../quota/quota.ts";

export interface Identity extends Caller {
  keyed: boolean;
  /** Owner of the key, or "" without one. */
  owner: string;
  keyId?: string;
}

/**
 * Returns a function that identifies the sender of a request by its key, or by its address if it has none. Call it
 * again whenever needed, because a key may end meanwhile.
 */
export function senderOf(
  { rawHeaders, socket }: IncomingMessage,
  { keys, trust, webSocket }: { keys: KeyRing; trust: Trust; webSocket: boolean },
): () => Identity {
  const key = presentedKey(rawHeaders, webSocket);
  if (key !== undefined) return () => holderOf(keys, keys.judge(key));
  const forwarded = headerValues(rawHeaders, "x-forwarded-for");
  const account = `${freeAccounts}${clientAccount(socket.remoteAddress, forwarded, trust)}`;
  return () => ({ plan: "free", account, limit: plans.free.dailyQuota, keyed: false, owner: "" });
}

export function holderOf(keys: KeyRing, verdict: KeyVerdict): Identity {
  if (!keys.ready())
    throw new Fault("SNAPSHOT_UNAVAILABLE", "Keys cannot be checked yet; try again shortly.");
  if (verdict.state !== "active") throw new Fault("INVALID_API_KEY", keyFaults[verdict.state]);
  const { id: keyId, plan, owner, quota: limit = plans[plan].dailyQuota } = verdict.record;
  return { plan, account: `${plan}:${owner}`, limit, keyed: true, owner, keyId };
}

/**
 * Refuses a caller whose plan does not suffice (INTERFACE 5.2). The message says `what` needs the plan, and names
 * `contact` as the place to get a key.
 */
export function requirePlan(
  { plan, keyed }: Identity,
  required: Plan,
  { what = "This request", contact }: { what?: string; contact?: string | undefined } = {},
): void {
  const { rank, refusal } = plans[required];
  if (refusal === undefined || plans[plan].rank >= rank) return;
  const address = `${what} needs a key of the ${required} plan`;
  const more = contact === undefined ? "" : ` Ask for a key: ${contactText(contact)}`;
  const how = "send it as Authorization: Bearer KEY or x-api-key: KEY.";
  if (!keyed) throw new Fault("API_KEY_REQUIRED", `${address}; ${how}${more}`);
  throw new Fault(refusal, `${address}; this key is on the ${plan} plan.${more}`);
}

/**
 * The API key that a request presents (INTERFACE 5.1), or undefined. `rawHeaders` are Node's: alternating names and
 * values, with the repetitions that parsed headers would hide. A WebSocket handshake may also name its key as a
 * subprotocol, since browsers cannot set headers there.
 */
export function presentedKey(rawHeaders: readonly string[], webSocket: boolean): string | undefined {
  const authorization = headerValues(rawHeaders, "authorization");
  const apiKey = headerValues(rawHeaders, "x-api-key");
  const offered = webSocket ? subprotocolKeys(rawHeaders) : [];
  const keys = [...authorization.map(bearerToken), ...apiKey.map(plainKey), ...offered];
  const two = "The request carries two different API keys; send one.";
  if (new Set(keys).size > 1) throw new Fault("CONFLICTING_CREDENTIALS", two);
  if ([authorization, apiKey, offered].some(({ length }) => length > 1))
    throw refused("a key is sent more than once");
  return keys[0];
}

/** All values of a header in order of appearance. `name` must be in lower case. */
export function headerValues(rawHeaders: readonly string[], name: string): string[] {
  const named = (header: string) => header.length === name.length && header.toLowerCase() === name;
  return rawHeaders.filter((_value, index) => index % 2 === 1 && named(rawHeaders[index - 1]!));
}

function subprotocolKeys(rawHeaders: readonly string[]): string[] {
  const protocols = headerValues(rawHeaders, "sec-websocket-protocol").flatMap((value) => value.split(","));
  const keys = protocols.map((name) => name.trim()).filter((name) => name.startsWith(keyProtocolPrefix));
  return keys.map((name) => name.slice(keyProtocolPrefix.length));
}

function bearerToken(value: string): string {
  const [, scheme = "", token = ""] = /^([^ ]*) *(.*)$/s.exec(value) ?? [];
  if (value === "") throw refused("the Authorization header is empty");
  if (scheme.toLowerCase() !== "bearer")
    throw refused("the Authorization header is not of the scheme Bearer");
  if (token === "") throw refused("the Authorization header holds no key");
  return token;
}

function plainKey(value: string): string {
  if (value === "") throw refused("the x-api-key header is empty");
  return value;
}

const refused = (reason: string) => new Fault("INVALID_API_KEY", `The API key is not acceptable: ${reason}.`);

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

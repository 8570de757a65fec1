import { Fault } from "../../schemas/errors.ts";
import { keyProtocolPrefix } from "../../schemas/feed.ts";

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

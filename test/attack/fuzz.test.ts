import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  type Attacked,
  archive,
  expectOwnRequest,
  type Keys,
  startAttacked,
} from "../helpers/attack/target.ts";
import { answersIn, attackWith, headerOf, type WireAnswer } from "../helpers/attack/wire.ts";
import { bearer } from "../helpers/http/proxy-client.ts";
import { market } from "../helpers/publish/records.ts";

const canonical = [archive, `${archive}?pageSize=1`, "/api/v1/scores", "/api/v1/scores/aave"];
const nasty = [
  ...["/api/v1//markets/historical", "//api/v1/markets/historical"],
  ...["/api/v1/scores/../markets/historical", "/api/v1/scores/%2e%2e/markets/historical"],
  ...["/api/v1/scores/..%2fmarkets/historical", "/api/v1/markets%2fhistorical"],
  ...["/api/v1/markets/%68istorical", "/api/v1/markets/%2568istorical", "/api/v1/markets/historical%00"],
  ...["/api/v1/markets/historical\0", "/api/v1/markets/historical\t", "/api/v1/markets/historical\r"],
  ...["/api/v1/markets/historical/", "/api/v1/markets/historical;x", "/api/v1/markets/historical#"],
  ...["/api\\v1\\markets\\historical", "/api/v1/scores/..\\markets\\historical"],
  ...["\\api/v1/markets/historical"],
  `http://proxy.test${archive}`,
  `http:/${archive}`,
  `//proxy.test${archive}`,
  `@proxy.test${archive}`,
  `http://user:password@proxy.test${archive}`,
  "proxy.test:443",
  "*",
  "/private/pages/",
  "/public/objects/../../private/pages/",
  `/%C0%AF${archive}`,
  `/\xef\xbc\x8f${archive}`,
  "/api/v1/scores/__proto__",
  "/api/v1/ws/scores",
  "/api/v1/scores/batch",
  "",
];
const bits = ["/", "//", ".", "..", "%2e", "%2f", "%5c", "%", "\\", ";", "?", "#", "%00", "\0", "\r", "\n"];
const crumbs = [...bits, "\t", " ", "\x80", "\xff", ":", "@", "api", "v1", "markets", "historical", "scores"];
const crumb = fc.constantFrom(...crumbs);

/** A text with fragments inserted, overwritten or removed in some places. */
function damaged(text: fc.Arbitrary<string>, maxLength: number): fc.Arbitrary<string> {
  const damage = fc.tuple(
    fc.nat({ max: 999 }),
    fc.constantFrom(0, 0, 1, 2, 7),
    fc.oneof(crumb, fc.constant("")),
  );
  return fc.tuple(text, fc.array(damage, { minLength: 1, maxLength })).map(([whole, damages]) =>
    damages.reduce((current, [place, length, put]) => {
      const at = Math.floor((place / 1000) * (current.length + 1));
      return current.slice(0, at) + put + current.slice(at + length);
    }, whole),
  );
}

const often = <T>(usual: T, others: readonly T[], weight: number): fc.Arbitrary<T> =>
  fc.oneof({ weight, arbitrary: fc.constant(usual) }, { weight: 1, arbitrary: fc.constantFrom(...others) });

const otherMethods = [
  ...["HEAD", "POST", "OPTIONS", "DELETE", "TRACE", "CONNECT", "PUT", "QUERY", "PROPFIND", "PRI"],
];
const method = often("GET", [...otherMethods, "get", "G\0ET", "\rGET", " GET", "GET\t", ""], 4);
const target = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom(...canonical, archive) },
  { weight: 3, arbitrary: fc.constantFrom(...nasty) },
  { weight: 2, arbitrary: damaged(fc.constantFrom(...canonical), 3) },
  { weight: 1, arbitrary: fc.array(crumb, { maxLength: 9 }).map((parts) => parts.join("")) },
);
const otherVersions = [
  ...["HTTP/1.0", "HTTP/0.9", "HTTP/2.0", "HTTP/1.10", "http/1.1", "HTTP/1,1", "", "HTTP/1.1\t"],
];
const version = often("HTTP/1.1", otherVersions, 6);
const lineEnd = often("\r\n", ["\n", "\r", "\r\r\n", "\n\r", "\r\n ", "\r\n\t", "\0\r\n"], 40);
const colon = often(": ", [":", " : ", ":\t", "\t:", ":\r\n ", "=", ": \0", ""], 9);
const keyName = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom("Authorization", "authorization", "X-Api-Key", "x-api-key") },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      "x_api_key",
      "X-Api-Key\0",
      " X-Api-Key",
      "Autho\rrization",
      "AUTHORIZATION",
      "",
    ),
  },
);
const otherFields = [
  ["Cookie", "a=b"],
  ["Host", "evil.test"],
  ["Connection", "keep-alive, authorization, x-api-key"],
  ["Connection", "close"],
  ["Transfer-Encoding", "chunked"],
  ["Transfer-Encoding", "\x0bchunked"],
  ["Content-Length", "0"],
  ["Content-Length", "5"],
  ["Content-Length", "+5"],
  ["Expect", "100-continue"],
  ["Upgrade", "h2c"],
  ["Accept-Encoding", "gzip"],
  ["If-None-Match", "*"],
  ["Range", "bytes=0-"],
  ["X-Original-URL", archive],
  ["X-HTTP-Method-Override", "GET"],
  ["Forwarded", `for=127.0.0.1;host=evil.test;path=${archive}`],
  ["X-\xe9", "\x80\xff"],
  ["X", "a\tb\0c"],
] as const;

/** Values that are tried in headers that carry a key. No key may be taken from most of them. */
function credential({ aegis, developer, revoked, unknown }: Keys): fc.Arbitrary<string> {
  const spelled = (key: string) => [
    ...[`Bearer ${key}`, `Bearer ${key}`, key, key, `bearer  ${key}`, `Bearer\t${key}`, `Bearer\r\n ${key}`],
    ...[`Basic ${btoa(`x:${key}`)}`, `${key}, ${key}`, `"${key}"`, `${key}\0`, `${key}\r`, ` ${key}\t`],
    ...[key.slice(0, -1), `${key}0`, key.toUpperCase(), key.toLowerCase(), key.replace("_", "%5f"), ""],
  ];
  const others = [developer, revoked, unknown].flatMap(spelled);
  return fc.oneof(
    { weight: 3, arbitrary: fc.constantFrom(...spelled(aegis)) },
    { weight: 2, arbitrary: fc.constantFrom(...others, "Bearer __proto__", "constructor") },
  );
}

/** Request heads, from nearly sound to broken; an address in X-Forwarded-For gives each a quota of its own. */
function attackHeads(keys: Keys): fc.Arbitrary<string> {
  const other = fc.constantFrom(...otherFields).map(([name, value]) => [name, value] as const);
  const keyed = fc.tuple(keyName, credential(keys));
  const sound = fc.constantFrom(["Authorization", `Bearer ${keys.aegis}`], [
    "X-Api-Key",
    keys.aegis,
  ] as const);
  const field = fc.tuple(fc.oneof(keyed, other, sound), colon, lineEnd);
  const head = fc
    .record({
      method,
      target,
      version,
      space: often(" ", ["  ", "\t", ""], 30),
      end: lineEnd,
      host: often("Host: proxy.test\r\n", ["", "Host: \0\r\n", "Host: a\r\nHost: b\r\n"], 20),
      fields: fc.array(field, { maxLength: 3 }),
      address: fc.ipV4(),
      body: often("", ["hello", "5\r\nhello\r\n0\r\n\r\n", `GET ${archive} HTTP/1.1\r\nHost: x\r\n\r\n`], 4),
    })
    .map(({ method: verb, target: path, version: http, space, end, host, fields, address, body }) => {
      const lines = fields.map(([[name, value], between, stop]) => `${name}${between}${value}${stop}`);
      const line = [verb, path, http].join(space);
      return `${line}${end}${host}X-Forwarded-For: ${address}\r\n${lines.join("")}\r\n${body}`;
    });
  return fc.oneof({ weight: 3, arbitrary: head }, { weight: 1, arbitrary: damaged(head, 3) });
}

/** Whether bytes contain what it takes to read the archive: its address, and this key where a key belongs. */
function mayReadArchive(bytes: string, key: string): boolean {
  const lines = bytes.split(/\r\n|\r|\n/);
  const credentialOf = /^(?:authorization:[ \t]*bearer +|x-api-key:[ \t]*)(.*?)[ \t]*$/i;
  return (
    // RFC 9112, 3: a server may take more than one space for one, as Node's parser does.
    lines.some((line) => /^(GET|HEAD) +\/api\/v1\/markets\/historical(\?[^ ]*)? +HTTP\/\d\.\d$/.test(line)) &&
    lines.some((line) => credentialOf.exec(line)?.[1] === key)
  );
}

let attacked: Attacked;
beforeAll(async () => {
  // Bodies are announced that never come.
  attacked = await startAttacked({ trustProxy: { hops: 1 }, limits: { headSeconds: 1, requestSeconds: 1 } });
});
afterAll(() => attacked.stop());

const inFlight = 12;
const rounds = 230;
/** Whether an answer tells anything of the archive: its records, its count, or that a page is unchanged. */
function isOfArchive(answer: WireAnswer): boolean {
  const told = /00000000-0000-4000-8000-|Will it happen|"markets":\[/.test(answer.text);
  return told || headerOf(answer, "etag")?.startsWith("W/") === true;
}

test("the answers of the archive can be told from others", async () => {
  const { proxy, keys } = attacked;
  const of = async (line: string, key: string) => {
    const bytes = `${line} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Api-Key: ${key}\r\n`;
    expect(mayReadArchive(bytes, keys.aegis)).toBe(line.includes(archive) && key === keys.aegis);
    return answersIn(await proxy.raw(`${bytes}Accept-Encoding: gzip\r\n\r\n`)).map(isOfArchive);
  };
  for (const line of [`GET ${archive}`, `HEAD ${archive}`, `GET ${archive}?category=none`]) {
    expect(await of(line, keys.aegis)).toEqual([true]);
    expect(await of(line, keys.developer)).toEqual([false]);
  }
  expect(await of("GET /api/v1/scores", keys.aegis)).toEqual([false]);
  const { text } = await proxy.get(archive, { headers: bearer(keys.aegis) });
  expect(text).toContain(market(39).question);
});

test(`${rounds * inFlight} odd heads: no record without a key, no 5xx, no request but the client's`, async () => {
  const { proxy, origin, keys } = attacked;
  const seen = { archive: 0, refused: 0, public: 0, asked: 0 };

  async function attack(heads: string[]): Promise<void> {
    origin.requests.length = 0;
    const answers = await Promise.all(
      heads.map(async (head) => {
        const received = await attackWith(proxy.port, head);
        expect(received.filter(({ status }) => status >= 500)).toEqual([]);
        const shown = received.filter(isOfArchive).length;
        if (shown > 0) expect(mayReadArchive(head, keys.aegis), JSON.stringify(head)).toBe(true);
        seen.archive += shown;
        return received;
      }),
    );
    const good = answers.flat().filter(({ status, text }) => status === 200 && !text.includes('"alive"'));
    const asking = heads.join("").match(/(GET|HEAD) +\/api\/v1\/scores[ ?/]/g) ?? [];
    expect(origin.requests.length).toBeLessThanOrEqual(asking.length);
    for (const head of origin.requests) expectOwnRequest(origin, head);
    seen.asked += origin.requests.length;
    seen.public += good.filter((answer) => !isOfArchive(answer)).length;
    seen.refused += answers.flat().filter(({ status }) => status >= 400).length;
  }

  const batch = fc.array(attackHeads(keys), { minLength: inFlight, maxLength: inFlight });
  await fc.assert(fc.asyncProperty(batch, attack), { numRuns: rounds, seed: 20_260_301 });
  // The attacks came close: each kind of answer was met again and again.
  for (const count of Object.values(seen)) expect(count).toBeGreaterThan(50);
  expect((await proxy.get("/readyz")).status).toBe(200);
});

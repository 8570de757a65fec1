import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { requestsWith } from "../helpers/attack/canaries.ts";
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

/** Pieces in which servers differ: of paths, of lines and of headers. */
const pieces = [
  ...["/", "//", "..", "%2e", "%2f", "%5c", "%", "\\", ";", "?", "#", "%00", ":", "@", archive],
  ...["\0", "\r", "\n", "\r\n", "\r\n\t", "\t", " ", "\x80", "\xff", "HTTP/1.0", "HTTP/2.0", "HEAD "],
  ...["\r\nHost: evil.test\r\n", "\r\nContent-Length: 5\r\n", "\r\nTransfer-Encoding: chunked\r\n"],
  ...[`\r\nX-Original-URL: ${archive}\r\n`, "\r\nConnection: close, x-api-key\r\n", "http://evil.test"],
];

/** Requests with pieces inserted, overwritten or removed in some places. */
function damaged(requests: readonly string[]): fc.Arbitrary<string> {
  const piece = fc.constantFrom("", ...pieces);
  const damage = fc.tuple(fc.nat({ max: 999 }), fc.constantFrom(0, 0, 1, 2, 7), piece);
  const damages = fc.array(damage, { maxLength: 3 });
  return fc.tuple(fc.constantFrom(...requests), damages).map(([whole, all]) =>
    all.reduce((current, [place, length, put]) => {
      const at = Math.floor((place / 1000) * (current.length + 1));
      return current.slice(0, at) + put + current.slice(at + length);
    }, whole),
  );
}

/** Heads, from sound to broken, with keys in every place. An address in X-Forwarded-For gives each its own quota. */
function attackHeads(keys: Keys): fc.Arbitrary<string> {
  const targets = [archive, `${archive}?pageSize=1`, "/api/v1/scores", "/api/v1/scores/aave"];
  const sound = targets.flatMap((target) =>
    [`Authorization: Bearer ${keys.aegis}`, `x-api-key: ${keys.aegis}`].map(
      (field) => `GET ${target} HTTP/1.1\r\nHost: proxy.test\r\n${field}\r\n`,
    ),
  );
  const all = Object.values(keys).flatMap(requestsWith);
  // A server drops what it has not answered yet when bytes follow a request that was to be the last.
  const open = all.map((request) => request.replace("Connection: close\r\n\r\n", ""));
  const head = fc.oneof({ weight: 2, arbitrary: damaged(sound) }, { weight: 3, arbitrary: damaged(open) });
  return fc
    .tuple(head, fc.ipV4())
    .map(([text, address]) => text.replace("\r\n", `\r\nX-Forwarded-For: ${address}\r\n`));
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
const rounds = 130;
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

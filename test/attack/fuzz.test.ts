import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { attackHeads, mayReadArchive } from "../helpers/attack/heads.ts";
import { type Attacked, archive, expectOwnRequest, startAttacked } from "../helpers/attack/target.ts";
import { answersIn, attackWith, headerOf, type WireAnswer } from "../helpers/attack/wire.ts";
import { bearer } from "../helpers/http/proxy-client.ts";
import { market } from "../helpers/publish/records.ts";

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

const isOurFault = ({ status }: WireAnswer) => status >= 500;

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

test(`${(rounds * inFlight).toLocaleString("en")} odd heads: no record without a key, no 5xx, no other request`, async () => {
  const { proxy, origin, keys } = attacked;
  const seen = { archive: 0, refused: 0, public: 0, asked: 0 };

  async function attack(heads: string[]): Promise<void> {
    origin.requests.length = 0;
    const answers = await Promise.all(
      heads.map(async (head) => {
        const received = await attackWith(proxy.port, head);
        expect(received.filter(isOurFault)).toEqual([]);
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

import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { IntegrityError, verifyCopy, verifyProof, verifyScoreProof } from "../../proxy/site/client/client.ts";
import { MarketProof, type ScoreProof } from "../../schemas/envelopes.ts";
import { flipped, inLog, noteKey, proofIn, type Shape } from "../helpers/archive/proofs.ts";
import { startTestProxy, type TestProxy } from "../helpers/http/proxy.ts";
import { bearer } from "../helpers/http/proxy-client.ts";
import { market } from "../helpers/publish/records.ts";
import { python, pythonSays } from "./python.ts";

const key = noteKey("prs.example/log");
const saidTo = (texts: readonly string[], known: { key?: string; id?: string } = {}) =>
  pythonSays(texts.map((text) => ({ text, ...known })));

/** Whether the client accepts the text of an answer. */
async function accepted(text: string, known: Parameters<typeof verifyProof>[1] = {}): Promise<boolean> {
  try {
    await verifyProof(JSON.parse(text), known);
    return true;
  } catch {
    return false;
  }
}

/** Archives of every shape that trees of up to 40 children can have, and a place in each. */
const placed = fc
  .array(fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 20 }), {
    minLength: 1,
    maxLength: 20,
  })
  .chain((sizes) => {
    const shape: Shape = sizes.map((pages, s) =>
      pages.map((markets, p) => Array.from({ length: markets }, (_, m) => `{"id":"${s}-${p}-${m}"}`)),
    );
    return fc.record({ shape: fc.constant(shape), s: fc.nat(), p: fc.nat(), m: fc.nat() });
  })
  .map(({ shape, s, p, m }) => {
    const segment = s % shape.length;
    const page = p % shape[segment]!.length;
    return { shape, place: [segment, page, m % shape[segment]![page]!.length] as const };
  });

test("a proof of any place in an archive of any shape holds, in JavaScript and in Python", async () => {
  const texts: string[] = [];
  const ids: string[] = [];
  const check = async ({ shape, place }: { shape: Shape; place: readonly [number, number, number] }) => {
    const answer = proofIn(shape, place);
    expect(await verifyProof(answer, { id: place.join("-") })).toEqual(JSON.parse(answer.market));
    texts.push(JSON.stringify(answer));
    ids.push(answer.snapshotId);
  };
  await fc.assert(fc.asyncProperty(placed, check));
  if (python) expect(saidTo(texts)).toEqual(ids);
});

test("a proof holds for its own place and sizes only", async () => {
  const other = fc.integer({ min: -2, max: 2 }).filter((by) => by !== 0);
  const level = fc.constantFrom("page" as const, "segment" as const, "archive" as const);
  const member = fc.constantFrom("index" as const, "size" as const, "markets" as const);
  const texts: string[] = [];
  await fc.assert(
    fc.asyncProperty(placed, level, member, other, async ({ shape, place }, at, name, by) => {
      const answer = proofIn(shape, place);
      answer.proof[at][name] += by;
      texts.push(JSON.stringify(answer));
      expect(await accepted(texts.at(-1)!)).toBe(false);
    }),
  );
  if (python) expect(new Set(saidTo(texts))).toEqual(new Set([""]));
});

test("a proof that cannot be read is refused like one that does not hold", async () => {
  const answer = proofIn([[['{"id":"0"}']]], [0, 0, 0]);
  const copy = { archiveRoot: "0".repeat(64), markets: 1 };
  const texts: string[] = [];
  for (const forged of [
    { entry: "nonsense" },
    { entry: "null" },
    { entry: "[]" },
    { entry: '{"counts":7}' },
    { entry: undefined },
    { proof: undefined },
    { proof: null },
    { checkpoint: 7 },
  ]) {
    const lie = { ...answer, ...forged } as unknown as MarketProof;
    // By the member `market`, Python would take it for the proof of one.
    const score = { ...lie, market: undefined, score: '"text"' } as unknown as ScoreProof;
    for (const verify of [() => verifyProof(lie), () => verifyScoreProof(score), () => verifyCopy(lie, copy)])
      await expect(verify(), JSON.stringify(forged)).rejects.toThrow(IntegrityError);
    texts.push(JSON.stringify(lie), JSON.stringify(score));
  }
  if (python) expect(saidTo(texts)).toEqual(texts.map(() => ""));
});

describe("a proof of the service", () => {
  let proxy: TestProxy;
  let headers: Record<string, string>;
  beforeAll(async () => {
    proxy = await startTestProxy({ markets: 700 });
    headers = bearer(await proxy.issue());
  });
  afterAll(() => proxy.stop());

  const proofOf = (id: string) => proxy.get(`/api/v1/markets/${id}/proof`, { headers });

  test("holds for every market, byte for byte, and leads to the snapshot that is served", async () => {
    const texts: string[] = [];
    let snapshotId = "";
    for (let index = 0; index < 700; index += 29) {
      const { id } = market(index);
      const answer = await proofOf(id);
      expect(answer.status).toBe(200);
      const proof = MarketProof.parse(answer.json());
      expect(proof.market).toBe(JSON.stringify(market(index)));
      snapshotId = String(answer.headers["x-snapshot-id"]);
      expect(await verifyProof(proof, { id, snapshotId })).toEqual(market(index));
      texts.push(answer.text);
      expect((await proxy.get(`/api/v1/markets/${id}`, { headers })).text).toBe(proof.market);
    }
    if (python) expect(new Set(saidTo(texts))).toEqual(new Set([snapshotId]));
  });

  // Every character with CONFORMANCE=all.
  const step = (some: number) => (process.env.CONFORMANCE === "all" ? 1 : some);

  test("is refused with any one character changed or left out, in market, proof and checkpoint", async () => {
    const { id } = market(123);
    const answer: MarketProof = (await proofOf(id)).json();
    const signed = inLog(answer, [key]);
    const known = { id, key: key.text, asOf: signed.snapshotId };
    expect(await accepted(JSON.stringify(signed), known)).toBe(true);
    const changed = [...flipped(JSON.stringify(signed), step(31))];
    for (const text of flipped(signed.checkpoint))
      changed.push(JSON.stringify({ ...signed, checkpoint: text }));
    for (const text of flipped(JSON.stringify(signed.proof), step(5))) {
      const start = JSON.stringify({ ...signed, proof: 0 }).split('"proof":0');
      changed.push(start.join(`"proof":${text}`));
    }
    for (const text of changed) expect(await accepted(text, known), text).toBe(false);
    if (!python) return;
    const some = changed.filter((_, n) => n % step(9) === 0);
    const said = saidTo([JSON.stringify(signed), ...some], known);
    expect(said).toEqual([signed.snapshotId, ...some.map(() => "")]);
  });

  test("needs the signature of the key that is trusted, at any place among others", async () => {
    const answer: MarketProof = (await proofOf(market(5).id)).json();
    const [stranger, namesake] = [noteKey("other.example"), noteKey(key.name)];
    const { proof } = inLog(answer, [key]);
    const with_ = (checkpoint: string | null) => JSON.stringify({ ...answer, checkpoint, proof });
    const noteOf = (keys: (typeof key)[], changes = {}) => inLog({ ...answer, ...changes }, keys).checkpoint;
    const own = noteOf([key]);
    const good = [own, noteOf([key, stranger]), noteOf([namesake, key])];
    const bad = [
      null,
      "",
      noteOf([namesake]),
      noteOf([stranger]),
      // Another log of the same publisher, another place and another entry.
      noteOf([stranger, key]),
      noteOf([key], { commit: answer.commit + 1 }),
      noteOf([key], { entry: answer.entry.replace(/[0-9a-f]{64}"\}$/, `${"0".repeat(64)}"}`) }),
      own.replace(key.name, `${key.name}\n`),
      own.replace(/\n\n.*/s, "\n\n"),
      own.trimEnd(),
    ];
    const known = { key: key.text, asOf: answer.snapshotId };
    for (const note of good) expect(await accepted(with_(note), known), note).toBe(true);
    for (const note of bad) expect(await accepted(with_(note), known), String(note)).toBe(false);
    for (const text of flipped(key.text)) expect(await accepted(with_(own), { key: text }), text).toBe(false);
    expect(await accepted(with_(own), { id: market(6).id })).toBe(false);
    expect(await accepted(with_(own), { snapshotId: "0".repeat(64) })).toBe(false);
    if (!python) return;
    const said = saidTo([...good, ...bad].map(with_), known);
    expect(said.map((id) => id !== "")).toEqual([...good.map(() => true), ...bad.map(() => false)]);
  });
});

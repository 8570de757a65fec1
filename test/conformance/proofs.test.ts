import fc from "fast-check";
import { expect, test } from "vitest";
import { IntegrityError, verifyCopy, verifyProof, verifyScoreProof } from "../../proxy/site/client/client.ts";
import type { MarketProof, ScoreProof } from "../../schemas/envelopes.ts";
import { proofIn, type Shape } from "../helpers/archive/proofs.ts";
import { python, pythonSays } from "./python.ts";

// Proofs that a service gives are in log-proofs.test.ts.

const saidTo = (texts: readonly string[]) => pythonSays(texts.map((text) => ({ text })));

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
  if (python) expect(await saidTo(texts)).toEqual(ids);
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
      await expect(verifyProof(answer)).rejects.toThrow(IntegrityError);
    }),
  );
  if (python) expect(new Set(await saidTo(texts))).toEqual(new Set([""]));
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
  if (python) expect(await saidTo(texts)).toEqual(texts.map(() => ""));
});

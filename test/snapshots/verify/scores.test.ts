import { beforeAll, describe, expect, test } from "vitest";
import type { ScoreDimensions, ScoreHistory } from "../../../schemas/envelopes.ts";
import type { Manifest, ObjectRef } from "../../../schemas/store/stored-objects.ts";
import { scoreText } from "../../../snapshots/format/roots.ts";
import { layout, sha256 } from "../../../snapshots/store/layout.ts";
import {
  faultyKeys,
  goodStore,
  newestManifest,
  type Objects,
  replaceManifest,
} from "../../helpers/store/tamper.ts";

let good: Objects;
beforeAll(async () => {
  good = await goodStore();
});

/** Puts other scores into the newest manifest, and makes all above agree. Returns the manifest's key. */
function replaceScores(objects: Objects, changes: Partial<Manifest["scores"]>): string {
  return replaceManifest(objects, { scores: { ...newestManifest(objects).scores, ...changes } });
}

/** What verify says when the history or the dimensions of a protocol are others, and all hashes agree. */
async function faultsWith(kind: "histories" | "dimensions", change: (text: string) => string) {
  const objects = new Map(good);
  const { scores } = newestManifest(objects);
  const text = String(objects.get(layout.privateObject(scores[kind].aave!.hash)));
  const bytes = Buffer.from(change(text));
  const ref: ObjectRef = { hash: sha256(bytes), bytes: bytes.length };
  const key = layout.privateObject(ref.hash);
  objects.set(key, bytes);
  replaceScores(objects, { [kind]: { ...scores[kind], aave: ref } });
  return { keys: await faultyKeys(objects), key };
}

test("finds no fault in the same objects put again", async () => {
  for (const kind of ["histories", "dimensions"] as const) {
    expect((await faultsWith(kind, (text) => text)).keys).toEqual([]);
  }
});

describe("names a history", () => {
  const points =
    (change: (points: ScoreHistory["points"]) => ScoreHistory["points"]) => (all: ScoreHistory) => {
      const changed = change(all.points);
      return { ...all, points: changed, count: changed.length };
    };

  test.for<[string, (history: ScoreHistory) => object]>([
    ["is another protocol's", (all) => ({ ...all, slug: "curve.fi" })],
    ["tells of other days", (all) => ({ ...all, days: 8 })],
    ["has another count", (all) => ({ ...all, count: 3 })],
    ["has no points", points(() => [])],
    ["has its newest point first", points((all) => all.toReversed())],
    ["has a point twice", points(([first, last]) => [first!, first!, last!])],
    ["does not end with the record", points(([first, last]) => [first!, { ...last!, confidence: 89 }])],
    ["ends before the record", points(([first]) => [first!])],
    [
      "goes back a millisecond too far",
      points(([first, last]) => [{ ...first!, updatedAt: "2026-01-26T08:21:59.228Z" }, last!]),
    ],
    [
      "has a tier that is not its number's",
      points(([first, last]) => [{ ...first!, forgeScaleNum: 5 }, last!]),
    ],
    ["has a member more", points(([first, last]) => [Object.assign({}, first, { tvl: "$1" }), last!])],
  ])("that %s", async ([, change]) => {
    const { keys, key } = await faultsWith("histories", (text) => JSON.stringify(change(JSON.parse(text))));
    expect(keys).toEqual([key]);
  });

  test("unless it goes back seven days to the millisecond", async () => {
    const change = points(([first, last]) => [{ ...first!, updatedAt: "2026-01-26T08:21:59.229Z" }, last!]);
    const { keys } = await faultsWith("histories", (text) => JSON.stringify(change(JSON.parse(text))));
    expect(keys).toEqual([]);
  });
});

describe("names dimensions", () => {
  type Part = ScoreDimensions["dimensions"][number];
  const third = (change: (part: Part) => Partial<Part>) => (all: ScoreDimensions) => ({
    ...all,
    dimensions: all.dimensions.map((part, place) => (place === 3 ? { ...part, ...change(part) } : part)),
  });

  test.for<[string, (dimensions: ScoreDimensions) => object]>([
    ["are another protocol's", (all) => ({ ...all, slug: "curve.fi" })],
    ["are of another time", (all) => ({ ...all, updatedAt: "2026-02-02T08:21:59.228Z" })],
    ["have another evidence", (all) => ({ ...all, evidenceHash: "sha256:other" })],
    ["have another score", third(({ score }) => ({ score: score - 1 }))],
    ["have another percentile", third(() => ({ percentile: 33 }))],
    ["have a percentile that is no integer", third(() => ({ percentile: 0.5 }))],
    ["gained more than they have", third(({ score }) => ({ change7d: score + 1 }))],
    ["lost more than there is", third(({ score }) => ({ change7d: score - 101 }))],
    ["lack one", (all) => ({ ...all, dimensions: all.dimensions.slice(1) })],
    ["are in another order", (all) => ({ ...all, dimensions: all.dimensions.toReversed() })],
  ])("that %s", async ([, change]) => {
    const { keys, key } = await faultsWith("dimensions", (text) => JSON.stringify(change(JSON.parse(text))));
    expect(keys).toEqual([key]);
  });

  test("that changed within a history of one point", async () => {
    const objects = new Map(good);
    const { scores } = newestManifest(objects);
    const history: ScoreHistory = JSON.parse(
      String(objects.get(layout.privateObject(scores.histories.aave!.hash))),
    );
    const bytes = Buffer.from(JSON.stringify({ ...history, count: 1, points: history.points.slice(1) }));
    const ref = { hash: sha256(bytes), bytes: bytes.length };
    objects.set(layout.privateObject(ref.hash), bytes);
    replaceScores(objects, { histories: { ...scores.histories, aave: ref } });
    expect(await faultyKeys(objects)).toEqual([layout.privateObject(scores.dimensions.aave!.hash)]);
  });
});

test.for(["histories", "dimensions"] as const)(
  "names lines of scores that lack a protocol's %s",
  async (kind) => {
    const objects = new Map(good);
    const { scores } = newestManifest(objects);
    const { aave: _, ...others } = scores[kind];
    const lines = { ...scores, [kind]: others };
    replaceManifest(objects, { scores: lines });
    expect(await faultyKeys(objects)).toEqual([layout.scoreLines(sha256(scoreText(lines)))]);
  },
);

test("names a commit whose snapshot id leaves histories or dimensions out", async () => {
  for (const kind of ["histories", "dimensions"] as const) {
    const objects = new Map(good);
    const { scores } = newestManifest(objects);
    const { aave, "curve.fi": curve, ...others } = scores[kind];
    const changed = { ...scores, [kind]: { ...others, aave: curve, "curve.fi": aave } };
    replaceManifest(objects, { scores: changed as Manifest["scores"] }, {});
    expect(await faultyKeys(objects)).toContain(layout.commit(3));
  }
});

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { verifyProof, verifyScoreProof } from "../../proxy/site/client/client.ts";
import type { MarketProof } from "../../schemas/envelopes.ts";
import { filterFields } from "../../schemas/filters.ts";
import { askRows, ndjsonForm } from "../../snapshots/read/archive/rows.ts";
import { Catalog } from "../../snapshots/read/catalog/catalog.ts";
import { directoryStorage } from "../../snapshots/store/backends/directory.ts";
import { parseVerifierKey } from "../../snapshots/trust/notes/note-keys.ts";
import { Trust } from "../../snapshots/trust/trust.ts";
import { verify } from "../../snapshots/verify/verify.ts";
import { rowsQuery } from "../helpers/archive/query.ts";
import { memoryStorage } from "../helpers/store/storages.ts";
import { testFolder } from "../helpers/store/test-folder.ts";
import { keptQueries, makeExample } from "./example-store.ts";
import { python, ranProgram } from "./python.ts";
import { example, filesIn, specification, withWorkedExample, workedExample } from "./worked-example.ts";

const read = async (name: string) => JSON.parse(await readFile(join(example, name), "utf8"));
const key = (await readFile(join(example, "key.pub"), "utf8")).trim();

const folder = testFolder();

describe("the example store", () => {
  test("is what publishing gives, byte for byte, and small", async () => {
    await makeExample(join(folder, "made"), await keptQueries());
    const [made, kept] = [await filesIn(join(folder, "made")), await filesIn(example)];
    expect([...kept.values()].reduce((sum, bytes) => sum + bytes.length, 0)).toBeLessThan(240_000);
    const [{ zlib }] = await read("made.json");
    if (zlib === process.versions.zlib) {
      const hint = "after a change of the format, make the example anew as example-store.ts says";
      expect([...made.keys()], hint).toEqual([...kept.keys()]);
      for (const [name, bytes] of made) expect(bytes.equals(kept.get(name)!), `${name}; ${hint}`).toBe(true);
      return;
    }
    console.warn(`The example store was made with zlib ${zlib}, so only what it says is compared`);
    const idsOf = (files: Map<string, Buffer>) => JSON.parse(String(files.get("proofs.json")));
    expect(idsOf(made)).toMatchObject(
      idsOf(kept).map(({ market, proof: { page } }: MarketProof) => ({ market, proof: { page } })),
    );
  });

  test("has no faults, and answers its queries and proofs", async () => {
    const storage = directoryStorage(join(example, "store"));
    const { faults, commits, unreferenced } = await verify(storage, () => {});
    expect({ faults, commits, unreferenced }).toEqual({ faults: [], commits: 4, unreferenced: 0 });
    const catalog = new Catalog(storage, { cacheBytes: 2 ** 20 });
    await catalog.refresh();
    const asked = new Set<string>();
    for (const { query, total, ids } of await read("queries.json")) {
      const plan = await (
        await askRows(catalog, rowsQuery(String(new URLSearchParams(query))), ndjsonForm)
      ).plan();
      const lines: string[] = [];
      for await (const { text } of plan.read()) lines.push(...String(text).split("\n").slice(0, -1));
      expect([plan.total, lines.map((line) => JSON.parse(line).id)], JSON.stringify(query)).toEqual([
        total,
        ids,
      ]);
      for (const name of Object.keys(query)) asked.add(name.replace(/^(min|max)_/, ""));
    }
    expect([...asked].sort()).toEqual([...filterFields.map(({ field }) => field), "from", "to", "q"].sort());
    for (const proof of await read("proofs.json")) await verifyProof(proof, { key });
    for (const proof of await read("score-proofs.json"))
      expect((await verifyScoreProof(proof, { key })).slug).toBe("constructor");
  });
});

test("the specification tells of the example what it is", async () => {
  expect(withWorkedExample(await readFile(specification, "utf8"), await workedExample())).toBe(
    await readFile(specification, "utf8"),
  );
});

test("verify names the object in which a bit of any byte is flipped", async () => {
  const good = await filesIn(join(example, "store"));
  const trust = new Trust([parseVerifierKey(key)]);
  const faultsOf = async (objects: Map<string, Buffer>) =>
    (await verify(memoryStorage(objects), () => {}, { trust })).faults.map((fault) => fault.key);
  expect(await faultsOf(good)).toEqual([]);
  let place = 0;
  for (const [name, bytes] of good) {
    // Any other byte changes the hash by which such an object is named.
    const step = /[0-9a-f]{64}/.test(name) ? 30_011 : 401;
    for (; place < bytes.length; place += step) {
      const flipped = Buffer.from(bytes);
      flipped[place]! ^= 1 << (place % 8);
      expect(await faultsOf(new Map(good).set(name, flipped)), `${name}, byte ${place}`).toContain(name);
    }
    place -= bytes.length;
  }
});

test.runIf(python)(
  "reader.py builds the same indexes, roots and ids, and finds the same matches and proofs",
  async () => {
    const reader = join(import.meta.dirname, "reader.py");
    const files = ["queries.json", "proofs.json"].map((name) => join(example, name));
    const said = await ranProgram(python!, [reader, join(example, "store"), key, ...files]);
    const [{ snapshotId }] = await read("proofs.json");
    expect(said).toMatch(`snapshot ${snapshotId}: 38 queries and 3 proofs agree`);
  },
);

import { execFile } from "node:child_process";
import { cp, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { verifyProof } from "../../proxy/client/client.js";
import { filterFields } from "../../schemas/filters.ts";
import { Catalog } from "../../snapshots/read/catalog.ts";
import { ndjsonForm, planRows } from "../../snapshots/read/rows.ts";
import { directoryStorage } from "../../snapshots/store/directory.ts";
import { verify } from "../../snapshots/verify/verify.ts";
import { findProgram } from "../helpers/programs.ts";
import { rowsQuery } from "../helpers/query.ts";
import { makeExample } from "./example-store.ts";

const example = join(import.meta.dirname, "example");
const read = async (name: string) => JSON.parse(await readFile(join(example, name), "utf8"));
const key = (await readFile(join(example, "key.pub"), "utf8")).trim();
const python = findProgram("python3");
const run = promisify(execFile);

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "prs-conformance-"));
});
afterAll(() => rm(folder, { recursive: true }));

/** The files of a folder by name. */
async function filesIn(place: string): Promise<Map<string, Buffer>> {
  const entries = await readdir(place, { recursive: true, withFileTypes: true });
  const names = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  const files = names
    .sort()
    .map(async (name) => [name.slice(place.length + 1), await readFile(name)] as const);
  return new Map(await Promise.all(files));
}

describe("the example store", () => {
  test("is what publishing gives, byte for byte, and small", async () => {
    await makeExample(folder);
    const [made, kept] = [await filesIn(folder), await filesIn(example)];
    expect([...kept.values()].reduce((sum, bytes) => sum + bytes.length, 0)).toBeLessThan(200_000);
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
      idsOf(kept).map(({ checkpoint: _, ...proof }: object & { checkpoint: string }) => proof),
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
      const plan = await planRows(catalog, rowsQuery(String(new URLSearchParams(query))), ndjsonForm);
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
  });
});

describe.runIf(python)("reader.py", () => {
  const reader = join(import.meta.dirname, "reader.py");
  const env = { ...process.env, PYTHONDONTWRITEBYTECODE: "1" };
  const files = ["queries.json", "proofs.json"].map((name) => join(example, name));

  test("was written in few lines, and imports nothing but the standard library", async () => {
    for (const [name, most] of [
      ["reader.py", 200],
      ["verify_proof.py", 80],
      ["words.py", 60],
    ] as const) {
      const text = await readFile(join(import.meta.dirname, name), "utf8");
      expect(text.split("\n").length - 1, name).toBeLessThanOrEqual(most);
      const imported = [...text.matchAll(/^(?:import|from) ([\w, ]+?)(?: import .*)?$/gm)].flatMap(
        ([, names]) => names!.split(", "),
      );
      const script = `import sys; print(set(${JSON.stringify(imported)}) - sys.stdlib_module_names - {"verify_proof", "words"})`;
      expect((await run(python!, ["-c", script])).stdout, name).toBe("set()\n");
    }
  });

  test("builds the same indexes, roots and ids, and finds the same matches and proofs", async () => {
    const { stdout } = await run(python!, [reader, join(example, "store"), key, ...files], { env });
    const [{ snapshotId }] = await read("proofs.json");
    expect(stdout).toMatch(`snapshot ${snapshotId}: 36 queries and 3 proofs agree`);
  });

  // To flip every byte of the store, which takes a quarter of an hour: CONFORMANCE=all
  test("refuses a store in which a bit of any byte is flipped", { timeout: 3_600_000 }, async () => {
    const store = join(folder, "flipped");
    await cp(join(example, "store"), store, { recursive: true });
    const script = `
import pathlib, sys
sys.path.insert(0, ${JSON.stringify(import.meta.dirname)})
from reader import read_store
store, key, step, place = sys.argv[1], sys.argv[2], int(sys.argv[3]), 0
for file in sorted(at for at in pathlib.Path(store).rglob("*") if at.is_file()):
    data = file.read_bytes()
    for at in range(place, len(data), step):
        file.write_bytes(data[:at] + bytes([data[at] ^ (1 << at % 8)]) + data[at + 1:])
        try:
            read_store(store, key)
            print(file, at)
        except Exception:
            pass
    place = (place - len(data)) % step
    file.write_bytes(data)
read_store(store, key)`;
    const step = process.env.CONFORMANCE === "all" ? 1 : 3_001;
    const { stdout } = await run(python!, ["-c", script, store, key, String(step)], { env });
    expect(stdout).toBe("");
  });

  test("refuses a store with a file more or less, or signed by another key", async () => {
    const store = join(folder, "changed");
    await cp(join(example, "store"), store, { recursive: true });
    const refused = async (vkey = key) =>
      run(python!, [reader, store, vkey], { env }).then(
        () => "",
        (error) => String(error.stderr).trim().split("\n").at(-1),
      );
    expect(await refused()).toBe("");
    expect(await refused(key.replace("example.org", "example.com"))).toMatch(/the key is no Ed25519 key/);
    await writeFile(join(store, "more.json"), "{}");
    expect(await refused()).toMatch(/nothing names/);
    await rm(join(store, "more.json"));
    await rm(join(store, "commits/0000000002.json"));
    expect(await refused()).toMatch(/the log is broken/);
  });
});

import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { clientFiles } from "../../../proxy/site/static-files.ts";
import { endpoints } from "../../../schemas/endpoints.ts";
import { facetNames } from "../../../schemas/filters.ts";
import { combinations } from "../../helpers/archive/combinations.ts";
import { indexParts } from "../../helpers/archive/index-parts.ts";
import { startArchiveProxy } from "../../helpers/http/archive-proxy.ts";
import { bundled } from "../../helpers/http/bundled.ts";
import { publishRecords, recordsOf } from "../../helpers/publish/records.ts";
import { findChromium, launch } from "../../helpers/servers/chromium.ts";
import { findNode } from "../../helpers/servers/programs.ts";
import { memoryStorage } from "../../helpers/store/storages.ts";
import type { Objects } from "../../helpers/store/tamper.ts";

const script = new URL("../../helpers/http/recompute-exercise.mjs", import.meta.url).pathname;
const folder = mkdtempSync(join(tmpdir(), "recompute-"));
afterAll(() => rmSync(folder, { recursive: true }));

describe("the evaluator as clients load it", () => {
  const [linked, exercise] = [join(folder, "linked.mjs"), join(folder, "exercise.json")];
  const queries: { search: string; by: readonly string[] }[] = [];
  const expected: object[] = [];
  let proxy: Awaited<ReturnType<typeof startArchiveProxy>>;

  beforeAll(async () => {
    const markets = recordsOf(0, 120);
    const objects: Objects = new Map();
    const storage = memoryStorage(objects);
    await publishRecords(storage, markets);
    proxy = await startArchiveProxy(storage);
    const by = [...facetNames];
    for (const { filters } of fc.sample(combinations(markets), { numRuns: 40, seed: 7 })) {
      const search = new URLSearchParams();
      for (const [name, value] of Object.entries(filters)) search.set(name, String(value));
      queries.push({ search: String(search), by });
      const { total, facets } = await proxy.facets({ ...filters, by: by.join(), limit: 1000 });
      expected.push({ total, facets });
    }
    const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString("base64");
    const index = indexParts(objects).map(({ header, sections, words }) => ({
      header: base64(header),
      sections: Object.fromEntries([...sections].map(([name, bytes]) => [name, base64(bytes)])),
      words: base64(words),
    }));
    const evaluator = new URL("../../../snapshots/read/fetched-index.ts", import.meta.url);
    writeFileSync(linked, bundled(evaluator));
    writeFileSync(exercise, JSON.stringify({ index, queries }));
  });
  afterAll(() => proxy?.stop());

  const nodes = [
    ["20", findNode("20")],
    ["22", findNode("22")],
    ["24", process.execPath],
  ] as const;
  for (const [version, program] of nodes) {
    test.skipIf(!program)(`gives the service's totals and facets in Node ${version}`, async () => {
      const { stdout, stderr } = await promisify(execFile)(program!, [script, linked, exercise], {
        maxBuffer: 2 ** 26,
      });
      expect(stderr).toBe("");
      expect(JSON.parse(stdout)).toEqual(expected);
    });
  }

  const program = findChromium();
  test.skipIf(!program)("gives them in Chromium", async () => {
    const browser = await launch(program!);
    try {
      const page = await browser.newPage();
      const source = /export (async function recompute.*?^\})/ms.exec(readFileSync(script, "utf8"))?.[1];
      const asked = readFileSync(exercise, "utf8");
      const here = `(async () => (${source})(await import("${asUrl(readFileSync(linked, "utf8"))}"), ${asked}))()`;
      expect(await page.evaluate(here)).toEqual(expected);
    } finally {
      await browser.close();
    }
  });

  test("needs neither Node nor a library, and is served with what its source exports", async () => {
    const source = new URL("../../../proxy/site/client/recompute.ts", import.meta.url);
    const text = String(await clientFiles.find(({ path }) => path === endpoints.recompute.path)?.read());
    expect(text.match(/\bimport\b.{40}|\b(?:Buffer|process|setImmediate)[.(].{40}/g)).toBe(null);
    expect(Object.keys(await import(asUrl(text))).sort()).toEqual(
      Object.keys(await import(source.href)).sort(),
    );
  });
});

/** An address of a module of this text. */
const asUrl = (text: string) => `data:text/javascript,${encodeURIComponent(text)}`;

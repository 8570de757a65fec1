import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import { mergeChanges } from "../../scripts/copy/lines.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

const folder = testFolder();

interface Market {
  id: number;
  day: number;
  version: number;
}

const textOf = ({ id, day, version }: Market) =>
  JSON.stringify({
    id: `00000000-0000-4000-8000-${String(id).padStart(12, "0")}`,
    // A separator of lines to JavaScript, and none to JSON.
    question: `a trap:\u2028 ,"resolvedAt":"9999-01-01 in version ${version}`,
    resolvedAt: new Date(Date.UTC(2025, 0, day)).toISOString(),
    dimensions: [{ references: [{ a: 1, resolvedAt: "9999-01-01T00:00:00.000Z" }] }],
  });

/** In the archive's order: by time and then by id, both descending. */
const ordered = (markets: readonly Market[]) => markets.toSorted((a, b) => b.day - a.day || b.id - a.id);
const linesOf = (texts: readonly string[]) => texts.map((text) => `${text}\n`).join("");

const archive = fc.uniqueArray(
  fc.record({
    id: fc.integer({ min: 0, max: 60 }),
    day: fc.integer({ min: 1, max: 9 }),
    version: fc.integer({ min: 1, max: 2 }),
  }),
  { selector: ({ id }) => id, maxLength: 50, size: "max" },
);
const seed = Date.now() % 2 ** 31;

test(`what is merged is the new archive, whatever differs (seed ${seed})`, async () => {
  const [old, changes, merged] = ["old", "changes", "new"].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ];
  await fc.assert(
    fc.asyncProperty(archive, archive, async (before, after) => {
      const [had, has] = [ordered(before).map(textOf), ordered(after).map(textOf)];
      const kept = new Set(after.map(({ id }) => id));
      const deleted = before.filter(({ id }) => !kept.has(id)).toSorted((a, b) => a.id - b.id);
      await writeFile(old, linesOf(had));
      await writeFile(
        changes,
        linesOf([
          ...deleted.map((market) => JSON.stringify({ op: "delete", id: JSON.parse(textOf(market)).id })),
          ...has.filter((text) => !had.includes(text)).map((text) => `{"op":"put","market":${text}}`),
        ]),
      );
      expect(await mergeChanges(old, changes, merged)).toBe(has.length);
      expect(await readFile(merged, "utf8")).toBe(linesOf(has));
    }),
    { seed, numRuns: 100 },
  );
});

import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";

const root = new URL("../..", import.meta.url).pathname;
const read = (file: string) => readFileSync(join(root, file), "utf8");

/** Sections that a text cites: in `INTERFACE 2.4 to 2.6 and 8.1` these three. */
function citedIn(text: string): string[] {
  const citations = text.matchAll(/\bINTERFACE (\d+(?:\.\d+)?(?:(?:,| to| and) \d+(?:\.\d+)?)*)/g);
  return [...citations].flatMap(([, sections]) => sections!.match(/\d+(\.\d+)?/g)!);
}

describe("schemas/INTERFACE.md", () => {
  const headings = read("schemas/INTERFACE.md").matchAll(/^#{2,3} (\d+(?:\.\d+)?)\.? \S/gm);
  const sections = [...headings].map(([, number]) => number!);

  test("numbers its sections without gaps or repetitions", () => {
    const expected: string[] = [];
    for (const section of sections) {
      const [last = "0"] = expected.slice(-1);
      const [chapter, paragraph = 0] = last.split(".").map(Number);
      expected.push(section.includes(".") ? `${chapter}.${paragraph + 1}` : String(chapter! + 1));
    }
    expect(sections).toEqual(expected);
    expect(sections.length).toBeGreaterThan(20);
  });

  test("has every section that the code cites", () => {
    // Other tests' names are code, too; this one has examples of its own.
    const files = execFileSync(
      "git",
      ["grep", "-l", "INTERFACE [0-9]", "--", ":!test/project/interface.test.ts"],
      {
        cwd: root,
        encoding: "utf8",
      },
    );
    const cited = files
      .trimEnd()
      .split("\n")
      .flatMap((file) => citedIn(read(file)).map((section) => ({ file, section })));
    expect(cited.filter(({ section }) => !sections.includes(section))).toEqual([]);
    expect(cited.length).toBeGreaterThan(30);
  });

  test("is the only interface document that the code cites", () => {
    const old = `SPEC ${"[0-9]"}`;
    expect(() => execFileSync("git", ["grep", "-nE", old], { cwd: root, encoding: "utf8" })).toThrow();
  });

  test("is cited in ranges and lists, too", () => {
    expect(citedIn("(INTERFACE 2.4 to 2.6, 4 and 8.1), as INTERFACE 7, RFC 9457, says")).toEqual([
      "2.4",
      "2.6",
      "4",
      "8.1",
      "7",
    ]);
  });
});

test("snapshots/SPEC.md has every section that the code cites by its name", () => {
  const headings = [...read("snapshots/SPEC.md").matchAll(/^## (.+)$/gm)].map(([, heading]) => heading!);
  const files = execFileSync("git", ["grep", "-l", "snapshots/SPEC.md", "--", "*.ts", "*.md"], {
    cwd: root,
    encoding: "utf8",
  });
  const cited = files
    .trimEnd()
    .split("\n")
    .flatMap((file) => {
      const names = read(file).matchAll(/snapshots\/SPEC\.md, "([^"]+)"|"(\w+)" in snapshots\/SPEC\.md/g);
      return [...names].map(([, after, before]) => ({ file, heading: (after ?? before)! }));
    });
  expect(cited.filter(({ heading }) => !headings.includes(heading))).toEqual([]);
  expect(cited.length).toBeGreaterThan(5);
});

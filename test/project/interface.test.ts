import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import {
  errorCodes,
  MarketAbsence,
  MarketFacets,
  MarketIndex,
  MarketPage,
  MarketProof,
  Problem,
  Ready,
  ScoreBatch,
  ScoreDimensions,
  ScoreHistory,
  ScoreList,
  ScoreProof,
  Status,
  Usage,
} from "../../schemas/envelopes.ts";
import { HistoricalMarket, MarketDimension, ProtocolScore, ScoreListEntry } from "../../schemas/records.ts";
import { FeedMessage } from "../../schemas/rooms/feed.ts";

const root = new URL("../..", import.meta.url).pathname;
const read = (file: string) => readFileSync(join(root, file), "utf8");

/** The files among these that have something. */
function filesWith(what: string, ...paths: string[]): string[] {
  const found = execFileSync("git", ["grep", "-l", what, "--", ...paths], { cwd: root, encoding: "utf8" });
  return found.trimEnd().split("\n");
}

/** Sections that a text cites: in `INTERFACE 2.4 to 2.6 and 8.1` these three. */
function citedIn(text: string): string[] {
  const citations = text.matchAll(/\bINTERFACE (\d+(?:\.\d+)?(?:(?:,| to| and) \d+(?:\.\d+)?)*)/g);
  return [...citations].flatMap(([, sections]) => sections!.match(/\d+(\.\d+)?/g)!);
}

describe("schemas/INTERFACE.md", () => {
  const text = read("schemas/INTERFACE.md");
  const headings = text.matchAll(/^#{2,3} (\d+(?:\.\d+)?)\.? \S/gm);
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

  test.each([
    ["2.1", ProtocolScore],
    ["2.4", HistoricalMarket],
    ["2.5", MarketDimension],
    ["2.7", MarketPage],
    ["4.1", ScoreList],
    ["4.1", ScoreListEntry],
    ["4.3", ScoreBatch],
    ["4.4", ScoreHistory],
    ["4.4", ScoreDimensions],
    ["4.6", Status],
    ["4.6", Usage],
    ["4.6", Ready],
    ["4.7", MarketFacets],
    ["4.9", MarketProof],
    ["4.9", ScoreProof],
    ["4.12", MarketIndex],
    ["4.12", MarketAbsence],
    ["6", { shape: Object.assign({}, ...FeedMessage.options.map(({ shape }) => shape)) }],
    ["7", Problem],
  ])("names every member of an answer in section %s", (section, { shape }) => {
    const from = text.search(new RegExp(`^#+ ${section.replace(".", "\\.")}[. ]`, "m"));
    const [, body = ""] = /\n([\s\S]*?)(?=\n#|$)/.exec(text.slice(from)) ?? [];
    const members = Object.keys(shape);
    expect(members.filter((member) => !new RegExp(`\\b${member}\\b`).test(body))).toEqual([]);
    expect(members.length).toBeGreaterThan(2);
  });

  // That it names no other is in test/project/named.test.ts.
  test("names every error code", () => {
    expect(errorCodes.filter((code) => !text.includes(`\`${code}\``))).toEqual([]);
  });

  test("has every section that the code cites", () => {
    // Other tests' names are code, too; this one has examples of its own.
    const cited = filesWith("INTERFACE [0-9]", ":!test/project/interface.test.ts").flatMap((file) =>
      citedIn(read(file)).map((section) => ({ file, section })),
    );
    expect(cited.filter(({ section }) => !sections.includes(section))).toEqual([]);
    expect(cited.length).toBeGreaterThan(30);
  });
});

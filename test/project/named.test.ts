import { execFileSync } from "node:child_process";
import { existsSync, globSync } from "node:fs";
import { basename, join } from "node:path";
import { describe, expect, test } from "vitest";
import { variables } from "../../proxy/docs/settings.ts";
import { type Endpoint, endpoints } from "../../schemas/endpoints.ts";
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
import { sharingRoot } from "../../schemas/rooms/sharing.ts";
import { exitCodes } from "../../scripts/cli.ts";
import type { Command, Program } from "../../scripts/program.ts";
import { benchOptions } from "../bench/bench.ts";
import { programs, runCommand } from "../helpers/publish/commands.ts";
import { guide, guides, references, shortGuides } from "../helpers/publish/guides.ts";

// What a document or a help text names is there, and what is there is named: commands, options, endpoints, settings.

const root = new URL("../..", import.meta.url).pathname;
const operating = ".github/deploy/OPERATING.md";
const documents = [...guides, ...shortGuides, ...references];
/** What users and operators read or run, and the code with its messages. */
const told = execFileSync("git", ["ls-files", "-z", "--", ":!test", ":!*.png"], {
  cwd: root,
  encoding: "utf8",
})
  .split("\0")
  .filter((file) => file !== "" && existsSync(join(root, file)))
  .concat("test/bench/README.md");
const scripts: Record<string, string> = JSON.parse(guide("package.json")).scripts;
const names = Object.keys(programs) as (keyof typeof programs)[];
const commandsOf = (name: string): readonly Command[] =>
  (programs as Record<string, Program>)[name]?.commands ?? [];

/** Options that every command has which has them. */
const everywhere = ["--json", "--help"];
const optionsOf = (command: Command) => Object.keys(command.options).map((name) => `--${name}`);
const optionsIn = (text: string) =>
  [...text.matchAll(/(?<![\w-])--[a-z]+(?:-[a-z]+)*\b(?!-)/g)].map(([name]) => name);
const allOptions = new Set([
  ...names.flatMap(commandsOf).flatMap(optionsOf),
  ...Object.keys(benchOptions).map((name) => `--${name}`),
  "--help",
]);

/** Options of programs that are not ours, and of which one each. */
const foreign: Record<string, readonly string[]> = {
  curl: ["--compressed", "--fail", "--header"],
  docker: ["--build", "--detach", "--rm"],
  gh: ["--repo"],
  git: ["--follow-tags"],
  mutants: ["--seconds"],
  npm: ["--ignore-scripts", "--omit", "--yes"],
  others: ["--check", "--from", "--quiet", "--status", "--transport"],
  systemctl: ["--failed", "--now"],
  vitest: ["--config", "--import"],
};

interface Call {
  file: string;
  /** As in `npm run NAME -- REST`. */
  name: string;
  rest: string;
}

/** The calls of npm's scripts in a text, each with what follows on its line. */
function callsIn(file: string): Call[] {
  const text = guide(file).replace(/\\\n\s*/g, "");
  return [...text.matchAll(/\bnpm (?:run (?:--silent )?([a-z]+)\b|(start|test)\b)(?: -- ([^`\n]*))?/g)].map(
    ([, run, short, rest = ""]) => ({ file, name: (run ?? short)!, rest }),
  );
}
const calls = told.flatMap(callsIn);

describe("commands", () => {
  test("are the programs of scripts/, and each is a script of package.json", () => {
    const files = globSync("scripts/*.ts", { cwd: root })
      .filter((file) => guide(file).includes("await runAsScript("))
      .map((file) => basename(file, ".ts"));
    expect(files.sort()).toEqual([...names].sort());
    const run = Object.entries(scripts).flatMap(([name, line]) => {
      const file = / scripts\/(\w+)\.ts$/.exec(line)?.[1];
      return file ? [[name, file]] : [];
    });
    expect(run.sort()).toEqual([...names, "proxy"].sort().map((name) => [name, name]));
    for (const name of names) {
      const { call } = programs[name];
      expect(call).toBe(name === "start" ? "npm start" : `npm run ${name} --`);
    }
  });

  test("that a document, a help text or a deployment file names are there", () => {
    const missing = calls.filter(({ name }) => scripts[name] === undefined);
    expect(missing).toEqual([]);
    const unknown = calls.filter(({ name, rest }) => {
      const known = commandsOf(name).map((command) => command.name);
      const [word = ""] = /^[a-z][a-z-]*\b/.exec(rest) ?? [];
      return word !== "" && known.length > 1 && !known.includes(word);
    });
    expect(unknown).toEqual([]);
    expect(calls.length).toBeGreaterThan(80);
  });

  test("are in the table of OPERATING.md, each with all its options and no other", () => {
    const listed = new Map<string, string[]>();
    for (const [, cell = ""] of guide(operating).matchAll(/^\| (`npm .*?) \| /gm))
      for (const [, code = ""] of cell.matchAll(/`(npm [^`]*)`/g)) {
        const [, name, word = ""] = /^npm (?:run )?(\w+)(?: -- ([a-z][a-z-]*))?/.exec(code)!;
        const key = `${name} ${word}`.trim();
        listed.set(key, [...(listed.get(key) ?? []), ...optionsIn(code)]);
      }
    const own = names.flatMap((name) =>
      commandsOf(name).map((command) => [`${name} ${command.name}`.trim(), optionsOf(command)] as const),
    );
    const sorted = (options: Iterable<string>) =>
      [...new Set(options)].filter((option) => !everywhere.includes(option)).sort();
    for (const [key, options] of own)
      expect([key, sorted(listed.get(key) ?? [])]).toEqual([key, sorted(options)]);
    const others = [...listed.keys()].filter((key) => !own.some(([known]) => known === key));
    expect(others.sort()).toEqual(["bench", "mutants", "proxy", "test"]);
  });
});

describe("options", () => {
  test("that a call shows are those of its command", () => {
    const wrong = calls.flatMap(({ file, name, rest }) => {
      const all = commandsOf(name);
      const some = all.filter((command) => command.name === rest.split(" ")[0]);
      const known = (some.length > 0 ? some : all).flatMap(optionsOf).concat("--help");
      // What stands behind a pipe or another command is not ours.
      const shown = optionsIn(rest.split(/[|;&)]/)[0]!);
      return all.length === 0
        ? []
        : shown.filter((option) => !known.includes(option)).map((one) => [file, name, one]);
    });
    expect(wrong).toEqual([]);
  });

  test("that a document names are of one of our commands, or of a program that is known", () => {
    const known = new Set([...allOptions, ...Object.values(foreign).flat()]);
    const named = documents.map((file) => [file, optionsIn(guide(file))] as const);
    const unknown = named.flatMap(([file, options]) =>
      options.filter((option) => !known.has(option)).map((option) => `${file} names ${option}`),
    );
    expect(unknown).toEqual([]);
    const all = new Set(named.flatMap(([, options]) => options));
    expect(
      Object.values(foreign)
        .flat()
        .filter((option) => !all.has(option)),
    ).toEqual([]);
  });
});

describe("endpoints", () => {
  const paths = Object.values<Endpoint>(endpoints).map(({ path }) => path);
  const tops = [...new Set(paths.map((path) => path.split("/")[1]!))].filter(
    (top) => top !== "" && top !== "api",
  );

  const top = `(?:api/v1|${tops.join("|").replaceAll(".", "\\.")})`;
  const mention = new RegExp(`(?<![\\w./<>-])/${top}(?![\\w-])[\\w/:.*-]*`, "g");
  /**
   * Addresses of the service that a text names, without the ends of sentences and of patterns. Those of a patch come
   * with it.
   */
  const addressesIn = (text: string) =>
    [...text.replace(/```diff\n.*?```/gs, "").matchAll(mention)].map(([address]) =>
      address.replace(/[.:*]+$/, ""),
    );
  const patternOf = (path: string) =>
    new RegExp(`^${path.replaceAll(".", "\\.").replace(/\*\w+/, ".+").replace(/:\w+/g, "[^/]+")}$`);
  const isThere = (address: string) =>
    paths.some((path) => patternOf(path).test(address) || path.startsWith(address.replace(/\/?$/, "/")));

  test.each(documents)("that %s names are there", (file) => {
    expect(addressesIn(guide(file)).filter((address) => !isThere(address))).toEqual([]);
  });

  test("that there are have a place in INTERFACE.md, as those of Delta Sharing have by their protocol", () => {
    const named = addressesIn(guide("schemas/INTERFACE.md"));
    const unnamed = paths.filter(
      (path) =>
        !named.includes(path.startsWith(sharingRoot) ? `${sharingRoot}/` : path) &&
        !(path.includes("*") && named.some((address) => patternOf(path).test(address))),
    );
    // Where the site is, which has no name of its own.
    expect(unnamed).toEqual(["/"]);
  });
});

describe("settings", () => {
  /** Names in capitals that a text has, of two words or more. */
  const capitalsIn = (text: string) =>
    [...text.matchAll(/(?<![\w-])[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+(?![\w-])/g)].map(([name]) => name);
  /** What commands read of their environment. */
  const read = globSync("scripts/**/*.ts", { cwd: root }).flatMap((file) => {
    const code = guide(file);
    const members = [...code.matchAll(/\benv\.([A-Z][A-Z_]+)/g)].map(([, name]) => name!);
    const taken = [...code.matchAll(/const \{([^}]*)\} = (?:shell\.)?env;/g)];
    return [...members, ...taken.flatMap(([, list]) => list!.match(/\b[A-Z][A-Z_]+\b/g)!)];
  });
  /** What npm and the system set. */
  const ofTheSystem = ["HOME", "INIT_CWD"];
  const known = [...variables.map(({ name }) => name), ...read, ...errorCodes];
  /** Names in the documents that are no settings of ours: placeholders, other programs' settings, codes of errors. */
  const others = [
    "AWS_ENDPOINT_URL_S3",
    "EXTRA_HTTP_HEADERS",
    "FAILOVER_SECONDS",
    "FORKED_LOG",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "INVALID_MESSAGE",
    "LOG_KEY",
    "NODE_USE_ENV_PROXY",
    "NO_PROXY",
    "SNAPSHOT_ID",
    "YOUR_AEGIS_KEY",
  ];

  test("that a document names are read", () => {
    const files = [
      "README.md",
      ".github/CONTRIBUTING.md",
      "proxy/README.md",
      operating,
      "schemas/INTERFACE.md",
    ];
    const named = new Set(files.flatMap((file) => capitalsIn(guide(file))));
    expect([...named].filter((name) => !known.includes(name)).sort()).toEqual(others);
  });

  test("that commands read are in OPERATING.md", () => {
    const text = guide(operating);
    expect(read.filter((name) => !ofTheSystem.includes(name) && !text.includes(name))).toEqual([]);
    expect(new Set(read).size).toBeGreaterThan(8);
  });

  test.each(names)("and options that the help of %s names are there, and all of its own", async (name) => {
    for (const { name: word, options } of commandsOf(name)) {
      const { stdout } = await runCommand(name, [word, "-h"].filter(Boolean), { from: root });
      expect(capitalsIn(stdout).filter((capitals) => !known.includes(capitals))).toEqual([]);
      expect(optionsIn(stdout).filter((option) => !allOptions.has(option))).toEqual([]);
      for (const [option, { required, default: usual = "" }] of Object.entries(options))
        expect(stdout).toMatch(
          new RegExp(`^ *--${option} .*\\(${required ? "required" : `default: ${usual}.*`}\\)$`, "m"),
        );
    }
  });
});

test("exit codes are those of OPERATING.md", () => {
  const [table = ""] = /^\| exit code \|[\s\S]*?\n\n/m.exec(guide(operating)) ?? [];
  const codes = [...table.matchAll(/^\| (\d) \| /gm)].map(([, code]) => Number(code));
  expect(codes).toEqual(Object.values(exitCodes));
});

test("sections that texts point to by file and name are there", () => {
  const headings = (file: string) => guide(file).match(/^#+ .*$|\*\*[^*]+\*\*/gm) ?? [];
  const known = new Map(
    documents.map((file) => [file, headings(file).map((text) => text.replaceAll(/^#+ |\*\*|`|\.$/gm, ""))]),
  );
  const references = told.flatMap((file) =>
    [...guide(file).matchAll(/([\w./-]*\w\.md)[`\])]*,?\s+(?:\/\/ |\* |# )?"([A-Z][^"\n]+)"/g)].map(
      ([, target = "", section = ""]) => ({ file, target, section }),
    ),
  );
  expect(references.length).toBeGreaterThan(30);
  const dangling = references.filter(({ target, section }) => {
    const named = [...known].filter(([path]) => path.endsWith(target.replace(/^[./]+/, "")));
    return !named.some(([, sections]) => sections.includes(section));
  });
  expect(dangling).toEqual([]);
});

/** Sections that a text cites: in `INTERFACE 2.4 to 2.6 and 8.1` these three. */
function citedIn(text: string): string[] {
  const citations = text.matchAll(/\bINTERFACE (\d+(?:\.\d+)?(?:(?:,| to| and) \d+(?:\.\d+)?)*)/g);
  return [...citations].flatMap(([, sections]) => sections!.match(/\d+(\.\d+)?/g)!);
}

describe("schemas/INTERFACE.md", () => {
  const text = guide("schemas/INTERFACE.md");
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

  test.for<[section: string, ...answers: { shape: object }[]]>([
    ["2.1", ProtocolScore],
    ["2.4", HistoricalMarket],
    ["2.5", MarketDimension],
    ["2.7", MarketPage],
    ["4.1", ScoreList, ScoreListEntry],
    ["4.3", ScoreBatch],
    ["4.4", ScoreHistory, ScoreDimensions],
    ["4.6", Status, Usage, Ready],
    ["4.7", MarketFacets],
    ["4.9", MarketProof, ScoreProof],
    ["4.12", MarketIndex, MarketAbsence],
    ["6", ...FeedMessage.options],
    ["7", Problem],
  ])("names every member of an answer in section %s", ([section, ...answers]) => {
    const from = text.search(new RegExp(`^#+ ${section.replace(".", "\\.")}[. ]`, "m"));
    const [, body = ""] = /\n([\s\S]*?)(?=\n#|$)/.exec(text.slice(from)) ?? [];
    const members = answers.flatMap(({ shape }) => Object.keys(shape));
    expect(members.filter((member) => !new RegExp(`\\b${member}\\b`).test(body))).toEqual([]);
    expect(members.length).toBeGreaterThan(2);
  });

  // That it names no other is seen above, where settings are.
  test("names every error code", () => {
    expect(errorCodes.filter((code) => !text.includes(`\`${code}\``))).toEqual([]);
  });

  test("has every section that the code cites", () => {
    // This test has examples of its own.
    const places = ["--", ":!test/project/named.test.ts"];
    const files = execFileSync("git", ["grep", "-l", "INTERFACE [0-9]", ...places], { cwd: root });
    const cited = String(files)
      .trimEnd()
      .split("\n")
      .flatMap((file) => citedIn(guide(file)).map((section) => ({ file, section })));
    expect(cited.filter(({ section }) => !sections.includes(section))).toEqual([]);
    expect(cited.length).toBeGreaterThan(30);
  });
});

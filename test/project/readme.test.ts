import { existsSync, globSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import { readConfig } from "../../proxy/config.ts";
import { variables } from "../../proxy/docs/settings.ts";
import { type Endpoint, endpoints } from "../../schemas/endpoints.ts";
import { meanings } from "../../schemas/meanings.ts";
import { archiveParameters } from "../../schemas/query.ts";
import { type Tool, tools } from "../../schemas/rooms/agents.ts";
import { forgeTiers } from "../../schemas/versions.ts";
import { incidents, wayBack } from "../../scripts/incidents.ts";
import { layout } from "../../snapshots/store/layout.ts";
import { bearer } from "../helpers/http/proxy-client.ts";
import { blockWith, guide, guideBlocks, guides, references, shortGuides } from "../helpers/publish/guides.ts";

const root = new URL("../..", import.meta.url).pathname;

/** Documents that name files of the project. */
const documents = [...guides, ...shortGuides, ...references];

/** What stands under no fence of a text in Markdown. */
const prose = (markdown: string) => markdown.replace(/^```[\s\S]*?^```$/gm, "");

/** What an address of GitHub calls a heading. */
const anchor = (heading: string) =>
  heading
    .toLowerCase()
    .replace(/[^\w -]/g, "")
    .replaceAll(" ", "-");
const headings = (markdown: string, depth = "#+") =>
  [...prose(markdown).matchAll(new RegExp(`^${depth} (.+)$`, "gm"))].map(([, heading]) => anchor(heading!));

/** The rows of the table between two marks, without its two head lines. */
function tableRows(name: string): string[] {
  const marked = new RegExp(`<!-- ${name}:.*-->\n([\\s\\S]*?)<!-- /${name} -->`, "g");
  const blocks = guides.flatMap((file) => [...guide(file).matchAll(marked)].map(([, rows = ""]) => rows));
  expect([name, blocks.length]).toEqual([name, 1]);
  return blocks[0]!.trimEnd().split("\n").slice(2);
}

describe("documents", () => {
  test.each(documents)("%s names files and folders that exist", (document) => {
    const named = guide(document).match(
      /(?<![\w./-])(?:schemas|snapshots|proxy|scripts|test|\.github|\.ci)\/[\w./*{},-]*[\w/*}]/g,
    );
    const missing = (named ?? []).filter((path) => globSync(path, { cwd: root }).length === 0);
    expect(missing).toEqual([]);
  });

  test.each(guides)("%s lists its sections", (file) => {
    const text = guide(file);
    expect(headings(text, "##").filter((heading) => !text.includes(`](#${heading})`))).toEqual([]);
  });

  test.each([...guides, ...shortGuides])("%s has links that lead somewhere", (file) => {
    const text = guide(file);
    const links = [...prose(text).matchAll(/\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)/g)];
    const lost = links.filter(([, path = "", section]) => {
      const target = path === "" ? file : join(dirname(file), path);
      if (!existsSync(join(root, target))) return true;
      return section !== undefined && !headings(guide(target)).includes(section);
    });
    expect(lost.map(([link]) => link)).toEqual([]);
    expect(links.length).toBeGreaterThan(1);
  });

  test("README.md leads to every other guide", () => {
    expect(
      [...guides.slice(1), ...shortGuides].filter((file) => !guide("README.md").includes(`](${file})`)),
    ).toEqual([]);
  });

  test("README.md is short", () => {
    expect(guide("README.md").trimEnd().split("\n").length).toBeLessThanOrEqual(180);
  });

  test("CONTRIBUTING.md says what every folder of the code holds", () => {
    const folders = globSync("{schemas,snapshots,proxy}/*/", { cwd: root });
    const [layout = ""] = /## Layout[\s\S]*?\n## /.exec(guide(".github/CONTRIBUTING.md")) ?? [];
    expect(folders.filter((folder) => !layout.includes(`\`${folder.replace(/\/?$/, "/")}\``))).toEqual([]);
    expect(folders.length).toBeGreaterThan(15);
    const rows = [...layout.matchAll(/^\| (.*) \| (.*) \|$/gm)].slice(2);
    const missing = rows.flatMap(([, own = "", text = ""]) => {
      const bases = [...own.matchAll(/`([^`]+\/)`/g)].map(([, folder]) => folder!);
      const named = [...text.matchAll(/`([\w./-]+(?:\.(?:ts|js|md)|\/))`/g)].map(([, path]) => path!);
      return named.filter((path) => ![...bases, ""].some((base) => existsSync(join(root, base, path))));
    });
    expect(missing).toEqual([]);
  });
});

describe("the guides", () => {
  test("list every endpoint of the endpoint table", () => {
    const rows = Object.values<Endpoint>(endpoints).map(
      ({ method, path, plan, availability, metered, summary }) =>
        `| ${method} | \`${path}\` | ${plan} | ${availability} | ${metered ? "1" : "none"} | ${summary} |`,
    );
    expect(tableRows("endpoints")).toEqual(rows);
  });

  test("list every tool for agents", () => {
    const rows = Object.entries<Tool>(tools).map(([name, { title, endpoint }]) => {
      const { plan, metered }: Endpoint = endpoints[endpoint];
      return `| \`${name}\` | ${plan} | ${metered ? "1" : "none"} | ${title} |`;
    });
    expect(tableRows("tools")).toEqual(rows);
  });

  test("say what the numbers mean, in the words of schemas/", () => {
    const rows = Object.values(meanings).map(({ field, meaning }) => `| ${field} | ${meaning} |`);
    expect(tableRows("meanings")).toEqual(rows);
  });

  test("list every variable of the proxy", () => {
    const rows = variables.map(
      ({ name, fixed, otherwise, meaning }) =>
        `| \`${name}\` | ${fixed === undefined ? otherwise : `\`${fixed}\``} | ${meaning} |`,
    );
    expect(tableRows("variables")).toEqual(rows);
  });

  test("list every parameter of the archive", () => {
    const rows = archiveParameters.map(
      ({ name, type, meaning }) => `| \`${name}\` | ${type.replaceAll("|", "\\|")} | ${meaning} |`,
    );
    expect(tableRows("parameters")).toEqual(rows);
  });

  // That the ways lead back is seen in test/scripts/sessions/damage.txt.
  test("list every kind of object, with the way back that messages name", () => {
    const rows = tableRows("incidents").map((row) => row.split(" | "));
    expect(rows.map(([of, , back]) => [of, back])).toEqual(
      incidents.map(({ of, back }) => [`| ${of.map((prefix) => `\`${prefix}\``).join(", ")}`, `${back} |`]),
    );
    const keys = Object.values(layout).map((at) => (typeof at === "string" ? at : at("x" as never)));
    expect(keys.filter((key) => wayBack(key) === undefined)).toEqual([]);
  });
});

const vitest = "npm exec -- vitest run --config test/vitest.config.ts";

/** What blocks of the guides have that no session runs, and what covers them. */
const elsewhere: [words: string, covered: string][] = [
  ["npm ci\nnpm start\n", "start.test.ts runs what npm start runs, .ci/run npm ci"],
  ["npm ci\nnpm test\n", ".ci/run"],
  [`${vitest} test/schemas/`, "openapi-examples.test.ts compares what this would write anew"],
  [`${vitest} test/proxy/`, "this test knows the folder; npm test runs the same command"],
  ['{"type": "hello"', "shapes of messages: live-feed.test.ts"],
  ["npm run bench\n", "it takes minutes to hours; commands.test.ts asks for its help"],
  ["claude mcp add", "a program of its own: agents.test.ts connects as it does"],
  ["import pandas\n", "csv.test.ts, where pandas is installed"],
  ["log prs.example.org", "a policy of real keys: policy.test.ts"],
  ["export SIGNING_KEY=publisher.key WITNESS_POLICY", "with a real witness: witness-commands.test.ts"],
  ["tools/monitor -policy", "with real witnesses and a static server: monitor.test.ts"],
  ['"slug": "kestrel-lend"', "below"],
  ['"mcpServers"', "below"],
  ["INSTALL postgres;", "with a real server: postgres-sources.test.ts"],
];

describe("the blocks of the guides", () => {
  test("are all run by a session, or covered elsewhere", () => {
    const sessions = globSync("test/scripts/sessions/*.txt", { cwd: root }).map(guide).join("");
    const run = [...sessions.matchAll(/^\$ block \S+ (.*)$/gm)].map(([, words]) => words!);
    // growth.test.ts applies every patch.
    const patches = guideBlocks.filter(({ language }) => language === "diff");
    const covered = [...patches, ...elsewhere.map(([words]) => blockWith(words))];
    const left = new Set(guideBlocks).difference(new Set(run.map(blockWith)));
    expect([...left].filter((block) => !covered.includes(block))).toEqual([]);
    expect(covered.filter((block) => !left.has(block))).toEqual([]);
  });

  test("need no file that only npm start makes, and fetch programs without asking", () => {
    for (const { text } of guideBlocks) {
      expect(text).not.toContain(".local/");
      expect(text).not.toMatch(/\bnpx (?!--yes )/);
    }
  });

  test("begin with an answer that the description has, too", () => {
    const [first] = JSON.parse(guide("schemas/openapi/examples/listScores.json")).scores;
    expect(JSON.parse(blockWith('"slug": "kestrel-lend"').text)).toEqual(first);
    const { bri, forgeScale, delta } = first;
    const words = `${bri} of 1,000 points, which makes it ${forgeScale}, the third of seven tiers. It gained five in`;
    expect(guide("README.md")).toContain(words);
    expect([delta, forgeTiers[2], forgeTiers.length]).toEqual([5, forgeScale, 7]);
  });

  test("set up an agent for the address of npm start", () => {
    const { host, port } = readConfig({ SNAPSHOT_STORE: "store" });
    const url = `http://${host}:${port}${endpoints.agents.path}`;
    const { mcpServers } = JSON.parse(blockWith('"mcpServers"').text);
    expect(mcpServers.prs).toEqual({ url, headers: bearer("YOUR_AEGIS_KEY") });
  });
});

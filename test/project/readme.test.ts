import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { variables } from "../../proxy/config.ts";
import { type Endpoint, endpoints } from "../../schemas/endpoints.ts";
import { meanings } from "../../schemas/meanings.ts";
import { archiveParameters } from "../../schemas/query.ts";

const root = new URL("../..", import.meta.url).pathname;
const read = (file: string) => readFileSync(join(root, file), "utf8");
const readme = read("README.md");

/** Documents that name files of the project. */
const documents = ["README.md", "schemas/INTERFACE.md", "snapshots/SPEC.md", ".github/deploy/README.md"];

/** The rows of the table between two marks, without its two head lines. */
function tableRows(name: string): string[] {
  const block = new RegExp(`<!-- ${name}:.*-->\n([\\s\\S]*?)<!-- /${name} -->`).exec(readme)?.[1] ?? "";
  return block.trimEnd().split("\n").slice(2);
}

describe("documents", () => {
  test.each(documents)("%s names files and folders that exist", (document) => {
    const named = read(document).match(
      /(?<![\w./-])(?:schemas|snapshots|proxy|scripts|test|\.github|\.ci)\/[\w./*{},-]*[\w/*}]/g,
    );
    const missing = (named ?? []).filter((path) => globSync(path, { cwd: root }).length === 0);
    expect(missing).toEqual([]);
  });

  test("README.md says what every folder of the code holds", () => {
    const folders = globSync("{schemas,snapshots,proxy}/*/", { cwd: root });
    const [layout = ""] = /## Layout[\s\S]*?\n## /.exec(readme) ?? [];
    expect(folders.filter((folder) => !layout.includes(`\`${folder.replace(/\/?$/, "/")}\``))).toEqual([]);
    expect(folders.length).toBeGreaterThan(15);
  });
});

describe("README.md", () => {
  test("lists every endpoint of the endpoint table", () => {
    const rows = Object.values<Endpoint>(endpoints).map(
      ({ method, path, plan, availability, metered, summary }) =>
        `| ${method} | \`${path}\` | ${plan} | ${availability} | ${metered ? "1" : "none"} | ${summary} |`,
    );
    expect(tableRows("endpoints")).toEqual(rows);
  });

  test("says what the numbers mean, in the words of schemas/", () => {
    const rows = Object.values(meanings).map(({ field, meaning }) => `| ${field} | ${meaning} |`);
    expect(tableRows("meanings")).toEqual(rows);
  });

  test("lists every variable of the proxy", () => {
    const rows = variables.map(
      ({ name, fixed, otherwise, meaning }) =>
        `| \`${name}\` | ${fixed === undefined ? otherwise : `\`${fixed}\``} | ${meaning} |`,
    );
    expect(tableRows("variables")).toEqual(rows);
  });

  test("lists every parameter of the archive", () => {
    const rows = archiveParameters.map(
      ({ name, type, meaning }) => `| \`${name}\` | ${type.replaceAll("|", "\\|")} | ${meaning} |`,
    );
    expect(tableRows("parameters")).toEqual(rows);
  });
});

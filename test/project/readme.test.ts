import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { variables } from "../../proxy/config.ts";
import { type Endpoint, endpoints } from "../../schemas/endpoints.ts";
import { meanings } from "../../schemas/meanings.ts";
import { archiveParameters } from "../../schemas/query.ts";

const readme = readFileSync(new URL("../../README.md", import.meta.url), "utf8");

/** The rows of the table between two marks, without its two head lines. */
function tableRows(name: string): string[] {
  const block = new RegExp(`<!-- ${name}:.*-->\n([\\s\\S]*?)<!-- /${name} -->`).exec(readme)?.[1] ?? "";
  return block.trimEnd().split("\n").slice(2);
}

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

import { expect, test } from "vitest";
import { incidents, wayBack } from "../../scripts/incidents.ts";
import { layout } from "../../snapshots/store/layout.ts";
import { deployed } from "../helpers/http/deployed.ts";

// That the ways lead back is seen in sessions/damage.txt.
test("OPERATING.md has a row for every kind of object, with the way back that messages name", () => {
  const [, table = ""] =
    /<!-- incidents: .*\n([\s\S]*?)<!-- \/incidents -->/.exec(deployed("OPERATING.md")) ?? [];
  const rows = table.trim().split("\n").slice(2);
  expect(rows.map((row) => row.split(" | ")[0])).toEqual(
    incidents.map(({ of }) => `| ${of.map((prefix) => `\`${prefix}\``).join(", ")}`),
  );
  expect(rows.map((row) => row.split(" | ")[2])).toEqual(incidents.map(({ back }) => `${back} |`));
  const keys = Object.values(layout).map((at) => (typeof at === "string" ? at : at("x" as never)));
  expect(keys.filter((key) => wayBack(key) === undefined)).toEqual([]);
});

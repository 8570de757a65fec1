import {
  contractJsonSchema,
  contractMarkdown,
  contractSql,
} from "../../../snapshots/sources/contract/describe-contract.ts";
import { counted, progressOn, requiredOption, usageError } from "../../cli.ts";
import { command, flag, jsonOption } from "../../program.ts";
import { inspectSourcesAt, sourcesLocation } from "../../sources.ts";
import { withTemporaryFolder } from "../../temporary.ts";
import { sourcesOption } from "./publish-run.ts";

export const contractCommand = command({
  name: "contract",
  does: "prints what sources must be, from the table that checks them: in Markdown without an option",
  options: {
    sql: flag("as CREATE TABLE for DuckDB"),
    json: flag("as JSON Schema (2020-12)"),
  },
  async run({ sql, json }, _operand, shell) {
    if (sql && json) throw usageError("--sql and --json exclude each other");
    if (json) shell.report(true, contractJsonSchema(), []);
    else shell.print((sql ? contractSql() : contractMarkdown()).trimEnd());
  },
});

export const checkCommand = command({
  name: "check",
  does: "says all that a publish would refuse in the sources, without a store",
  options: { sources: { ...sourcesOption, required: true }, ...jsonOption },
  async run({ sources, json }, _operand, shell) {
    const location = sourcesLocation(shell, requiredOption("sources", sources));
    const found = await withTemporaryFolder((folder) =>
      inspectSourcesAt(shell, location, folder, progressOn(shell.stderr)),
    );
    const { markets, scores, protocols } = found;
    const counts = [
      counted(markets, "market"),
      `${counted(scores, "score")} of ${counted(protocols, "protocol")}`,
    ];
    shell.report(json, found, [`${counts.join(" and ")}: nothing to refuse`]);
  },
});

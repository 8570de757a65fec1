import {
  contractJsonSchema,
  contractMarkdown,
  contractSql,
} from "../../../snapshots/sources/contract/describe-contract.ts";
import { exitCodes, usageError } from "../../cli.ts";
import { command } from "../../program.ts";
import { flag } from "./options.ts";

export const contractCommand = command({
  name: "contract",
  does: "prints what sources must be, from the table that checks them: in Markdown without an option",
  options: {
    sql: flag("as CREATE TABLE for DuckDB"),
    json: flag("as JSON Schema (2020-12)"),
  },
  async run({ sql = false, json = false }, _operand, shell) {
    if (sql && json) throw usageError("--sql and --json exclude each other");
    if (json) shell.report(true, contractJsonSchema(), []);
    else shell.print((sql ? contractSql() : contractMarkdown()).trimEnd());
    return exitCodes.done;
  },
});

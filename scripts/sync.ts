import { processShell } from "./cli.ts";
import { syncProgram } from "./commands/sync.ts";
import { runProgram } from "./program.ts";

process.exitCode = await runProgram(syncProgram, process.argv.slice(2), processShell());

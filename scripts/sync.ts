import { syncProgram } from "./commands/sync.ts";
import { runProgram } from "./program.ts";
import { processShell } from "./shell.ts";

process.exitCode = await runProgram(syncProgram, process.argv.slice(2), processShell());

import { startProgram } from "./commands/start.ts";
import { runProgram } from "./program.ts";
import { processShell } from "./shell.ts";

process.exitCode = await runProgram(startProgram, process.argv.slice(2), processShell());

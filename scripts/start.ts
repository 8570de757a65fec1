import { processShell } from "./cli.ts";
import { startProgram } from "./commands/start.ts";
import { runProgram } from "./program.ts";

process.exitCode = await runProgram(startProgram, process.argv.slice(2), processShell());

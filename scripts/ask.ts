import { askProgram } from "./commands/ask.ts";
import { runProgram } from "./program.ts";
import { processShell } from "./shell.ts";

process.exitCode = await runProgram(askProgram, process.argv.slice(2), processShell());

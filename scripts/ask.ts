import { processShell } from "./cli.ts";
import { askProgram } from "./commands/ask.ts";
import { runProgram } from "./program.ts";

process.exitCode = await runProgram(askProgram, process.argv.slice(2), processShell());

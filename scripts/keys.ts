import { keysProgram } from "./commands/keys.ts";
import { runProgram } from "./program.ts";
import { processShell } from "./shell.ts";

process.exitCode = await runProgram(keysProgram, process.argv.slice(2), processShell());

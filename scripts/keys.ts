import { processShell } from "./cli.ts";
import { keysProgram } from "./commands/keys.ts";
import { runProgram } from "./program.ts";

process.exitCode = await runProgram(keysProgram, process.argv.slice(2), processShell());

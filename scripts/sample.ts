import { sampleProgram } from "./commands/sample.ts";
import { runProgram } from "./program.ts";
import { processShell } from "./shell.ts";

process.exitCode = await runProgram(sampleProgram, process.argv.slice(2), processShell());

import { processShell } from "./cli.ts";
import { sampleProgram } from "./commands/sample.ts";
import { runProgram } from "./program.ts";

process.exitCode = await runProgram(sampleProgram, process.argv.slice(2), processShell());

import { snapshotProgram } from "./commands/snapshot.ts";
import { runProgram } from "./program.ts";
import { processShell } from "./shell.ts";

process.exitCode = await runProgram(snapshotProgram, process.argv.slice(2), processShell());

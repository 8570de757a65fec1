import { processShell } from "./cli.ts";
import { snapshotProgram } from "./commands/snapshot.ts";
import { runProgram } from "./program.ts";

process.exitCode = await runProgram(snapshotProgram, process.argv.slice(2), processShell());

import { doctorProgram } from "./commands/doctor.ts";
import { runProgram } from "./program.ts";
import { processShell } from "./shell.ts";

process.exitCode = await runProgram(doctorProgram, process.argv.slice(2), processShell());

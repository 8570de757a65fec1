import { processShell } from "./cli.ts";
import { doctorProgram } from "./commands/doctor.ts";
import { runProgram } from "./program.ts";

process.exitCode = await runProgram(doctorProgram, process.argv.slice(2), processShell());

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { fromEnvironment } from "./programs.ts";

const run = promisify(execFile);

/** A Python that has the clients of others, or undefined where none is installed. */
export const findClients = () =>
  fromEnvironment("TEST_CLIENTS_PYTHON", "the clients of others", "python-install.sh clients");

/** Runs Python code, which gets `given` as `given` and puts its answer into `answer`. Throws what Python says. */
export async function python<Answer>(program: string, given: object, code: string): Promise<Answer> {
  const lines = [
    "import json, os, sys, warnings",
    "warnings.simplefilter('ignore')",
    "given = json.loads(sys.argv[1])",
    code,
    "print('\\n' + json.dumps(answer, default=str), flush=True)",
    // Without this, Arrow's threads now and then abort Python while it shuts down: apache/arrow#34314.
    "os._exit(0)",
  ];
  // If Python crashes, it prints where it was.
  const env = { PATH: process.env.PATH, NO_PROXY: "127.0.0.1", PYTHONFAULTHANDLER: "1" };
  const options = { maxBuffer: 64 * 1024 * 1024, env };
  const { stdout } = await run(program, ["-c", lines.join("\n"), JSON.stringify(given)], options);
  return JSON.parse(stdout.trimEnd().split("\n").at(-1)!);
}

import { resolve } from "node:path";
import { printable } from "../snapshots/sources/printable.ts";

/** Where text goes; process.stdout is one. */
export interface Output {
  isTTY?: boolean;
  write(text: string): unknown;
}

/** What a command sees of the process that it runs in. Tests hand in their own. */
export class Shell {
  /** The folder the user stands in. */
  readonly directory: string;
  readonly env: NodeJS.ProcessEnv;
  readonly stdout: Output;
  readonly stderr: Output;

  constructor(directory: string, env: NodeJS.ProcessEnv, output: { stdout: Output; stderr: Output }) {
    this.directory = directory;
    this.env = env;
    this.stdout = output.stdout;
    this.stderr = output.stderr;
  }

  /** A path as the user meant it. */
  path(path: string): string {
    return resolve(this.directory, path);
  }

  /** Lines for the person at the terminal. They go to stderr, so that stdout holds results only. */
  say(text: string): void {
    this.stderr.write(linesOf(text));
  }

  /** Lines on stdout. */
  print(text: string): void {
    this.stdout.write(linesOf(text));
  }

  /** The result on stdout: with `json` one JSON object, else the lines. */
  report(json: boolean, result: object, lines: readonly string[]): void {
    if (json) this.stdout.write(`${JSON.stringify(result)}\n`);
    else for (const line of lines) this.print(line);
  }
}

/** The shell of this process. npm runs scripts in the package's folder and names the user's in INIT_CWD. */
export function processShell(): Shell {
  return new Shell(process.env.INIT_CWD ?? process.cwd(), process.env, process);
}

function linesOf(text: string): string {
  return `${text.split("\n").map(printable).join("\n")}\n`;
}

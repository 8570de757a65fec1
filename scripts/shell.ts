import { resolve } from "node:path";
import { printable } from "../snapshots/sources/contract/printable.ts";

/** A stream for text, such as process.stdout. */
export interface Output {
  isTTY?: boolean;
  write(text: string): unknown;
}

/** The process as a command sees it. Tests pass in their own. */
export class Shell {
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

  path(path: string): string {
    return resolve(this.directory, path);
  }

  /** Prints lines for the user on stderr, so that stdout holds only results. */
  say(text: string): void {
    this.stderr.write(linesOf(text));
  }

  warn(text: string): void {
    this.say(`Warning: ${text}`);
  }

  print(text: string): void {
    this.stdout.write(linesOf(text));
  }

  /** Prints the result on stdout: with `json` as one JSON object, otherwise as the lines. */
  report(json: boolean, result: object, lines: readonly string[]): void {
    if (json) this.stdout.write(`${JSON.stringify(result)}\n`);
    else for (const line of lines) this.print(line);
  }
}

/** The shell of this process. npm runs scripts in the package's folder, and puts the user's folder into INIT_CWD. */
export function processShell(): Shell {
  return new Shell(process.env.INIT_CWD ?? process.cwd(), process.env, process);
}

function linesOf(text: string): string {
  return `${text.split("\n").map(printable).join("\n")}\n`;
}

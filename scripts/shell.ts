import { resolve } from "node:path";
import { printable } from "../snapshots/sources/contract/refusals.ts";

export type Progress = (step: string, done: number, of: number) => void;

/** Shows progress: on a terminal in one line that is redrawn, elsewhere in a plain line for every tenth of a step. */
export function progressOn(terminal: Output): Progress {
  let shown = "";
  return (step, done, of) => {
    const percent = of === 0 ? 100 : Math.floor((done / of) * 100);
    const line = `${step}: ${done} of ${of} (${terminal.isTTY ? percent : percent - (percent % 10)} %)`;
    const mark = `${step} ${terminal.isTTY ? percent : Math.floor(percent / 10)}`;
    if (mark === shown) return;
    shown = mark;
    terminal.write(terminal.isTTY ? `\r\u001b[K${line}${done >= of ? "\n" : ""}` : `${line}\n`);
  };
}

/** A stream for text, such as process.stdout. */
interface Output {
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

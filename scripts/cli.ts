import { resolve } from "node:path";
import { type AnyErrorCode, type ErrorRow, errors, Fault, isFault } from "../schemas/errors.ts";
import { integerOf } from "../schemas/shapes.ts";
import { printable, SourceRefusal } from "../snapshots/sources/sources.ts";
import { hasCode, ObjectError } from "../snapshots/store/errors.ts";
import { wayBack } from "./incidents.ts";

/** Exit codes of all commands. .github/deploy/OPERATING.md documents them. */
export const exitCodes = {
  done: 0,
  unexpected: 1,
  usage: 2,
  refused: 3,
  lost: 4,
  unreachable: 5,
  mismatch: 6,
} as const;
export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes];

/** A fault of the command line. The command prints its usage, too. */
export const usageError = (message: string) => new Fault("USAGE", message);

/** Both bounds are included. */
export interface Bounds {
  min: number;
  max?: number;
}

export function integerOption(
  name: string,
  text: string,
  { min, max = Number.MAX_SAFE_INTEGER }: Bounds,
): number {
  const value = integerOf(text, min, max);
  if (value !== undefined) return value;
  throw usageError(`--${name} must be an integer from ${min} to ${max}, not ${JSON.stringify(text)}`);
}

/** `1 file`, `2 files`, `2 witnesses`. */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : noun.endsWith("s") ? "es" : "s"}`;
}

export function requiredOption(name: string, value: string | undefined): string {
  if (value) return value;
  throw usageError(`--${name} is missing`);
}

/** The exit code of an error that has one by its code. Such errors are printed without a stack. */
function exitOf(error: unknown): ExitCode | undefined {
  const code = error instanceof Error && "code" in error ? String(error.code) : "";
  const row: ErrorRow | undefined = Object.hasOwn(errors, code) ? errors[code as AnyErrorCode] : undefined;
  return row?.exit && exitCodes[row.exit];
}

export function exitCodeOf(error: unknown): ExitCode {
  return exitOf(error) ?? exitCodes.unexpected;
}

/** Prints why a command failed, with `json` also as an object on stdout, and returns its exit code. */
export function reportFailure(
  error: unknown,
  shell: Shell,
  { json, usage }: { json: boolean; usage: string },
): ExitCode {
  const exitCode = exitCodeOf(error);
  const message = messageOf(error);
  if (json) {
    const refusals = error instanceof SourceRefusal ? error.counted : [];
    shell.report(true, { error: { exitCode, message, refusals } }, []);
  }
  const expected = exitOf(error) !== undefined || isSystemError(error);
  shell.say(expected || !(error instanceof Error) ? message : String(error.stack));
  if (isFault(error, "USAGE", "INVALID_PARAMETER")) shell.say(`\n${usage}`);
  return exitCode;
}

function messageOf(error: unknown): string {
  const key = keyOfDamage(error);
  const back = key !== undefined && wayBack(key);
  if (back) return `${(error as Error).message}. The way back: ${back}.`;
  if (isSystemError(error)) return `cannot ${error.syscall} ${error.path}: ${error.message.split(", ")[0]}`;
  return error instanceof Error ? error.message : String(error);
}

/** The key of the object that an error calls damaged or missing. */
function keyOfDamage(error: unknown): string | undefined {
  const damage = isFault(error, "BROKEN_LOG") ? error.cause : error;
  const isDamage = damage !== error || hasCode(error, "CORRUPT_OBJECT", "MISSING_OBJECT");
  return isDamage && damage instanceof ObjectError ? damage.key : undefined;
}

/** Whether it is an error of the file system, which the user can resolve: rights, space, a file in the way. */
function isSystemError(error: unknown): error is Error & { syscall: string; path: string } {
  return error instanceof Error && "syscall" in error && "path" in error && typeof error.path === "string";
}

export type Progress = (step: string, done: number, of: number) => void;

/** Shows progress: on a terminal in one line that is redrawn, elsewhere in a plain line for every tenth of a step. */
export function progressOn(terminal: Output): Progress {
  let lastMark = "";
  return (step, done, of) => {
    const percent = of === 0 ? 100 : Math.floor((done / of) * 100);
    const line = `${step}: ${done} of ${of} (${terminal.isTTY ? percent : percent - (percent % 10)} %)`;
    const mark = `${step} ${terminal.isTTY ? percent : Math.floor(percent / 10)}`;
    if (mark === lastMark) return;
    lastMark = mark;
    terminal.write(terminal.isTTY ? `\r\u001b[K${line}${done >= of ? "\n" : ""}` : `${line}\n`);
  };
}

/** A stream for text, such as process.stdout. */
interface Output {
  isTTY?: boolean;
  write(text: string): unknown;
}

export type Shell = ReturnType<typeof shellOf>;

/** The process as a command sees it. Tests pass in their own. */
export function shellOf(
  directory: string,
  env: NodeJS.ProcessEnv,
  { stdout, stderr }: Record<"stdout" | "stderr", Output>,
) {
  const say = (text: string) => void stderr.write(linesOf(text));
  const print = (text: string) => void stdout.write(linesOf(text));
  return {
    directory,
    env,
    stdout,
    stderr,
    path: (path: string) => resolve(directory, path),
    /** Prints lines for the user on stderr, so that stdout holds only results. */
    say,
    warn: (text: string) => say(`Warning: ${text}`),
    print,
    /** Prints the result on stdout: with `json` as one JSON object, otherwise as the lines. */
    report(json: boolean | undefined, result: object, lines: readonly string[]): void {
      if (json) stdout.write(`${JSON.stringify(result)}\n`);
      else for (const line of lines) print(line);
    },
  };
}

/** The shell of this process. npm runs scripts in the package's folder, and puts the user's folder into INIT_CWD. */
export function processShell(): Shell {
  return shellOf(process.env.INIT_CWD ?? process.cwd(), process.env, process);
}

function linesOf(text: string): string {
  return `${text.split("\n").map(printable).join("\n")}\n`;
}

import { integerOf } from "../schemas/shapes.ts";
import { SourceRefusal } from "../snapshots/sources/contract/refusals.ts";
import { wayBack } from "./incidents.ts";
import type { Shell } from "./shell.ts";

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

/** The command line is wrong. The command prints its usage and ends with exit code 2. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}

/** A key that opens nothing: the command line is right, and its usage helps nobody. Exit code 2. */
export class KeyRefusedError extends Error {
  override readonly name = "KeyRefusedError";
}

/** The value of an integer option, `otherwise` when it is left out. Throws UsageError outside `min..max`. */
export function integerOption(
  name: string,
  text: string | undefined,
  { min, max = Number.MAX_SAFE_INTEGER, otherwise }: { min: number; max?: number; otherwise: number },
): number {
  if (text === undefined) return otherwise;
  const value = integerOf(text, min, max);
  if (value !== undefined) return value;
  throw new UsageError(`--${name} must be an integer from ${min} to ${max}, not ${JSON.stringify(text)}`);
}

/** A number with its noun: `1 file`, `2 files`. */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

/** The value of a required option. Throws UsageError when it is left out or empty. */
export function requiredOption(name: string, value: string | undefined): string {
  if (value) return value;
  throw new UsageError(`--${name} is missing`);
}

/** A program that a command started has failed. It has printed the reason itself. */
export class FailedStepError extends Error {
  override readonly name = "FailedStepError";
}

/**
 * Errors with an exit code of their own, by name. They are printed without a stack. Their classes would bring DuckDB
 * and the S3 client with them, which take 40 MB of a process that needs neither.
 */
export const meanings: Readonly<Record<string, ExitCode>> = {
  UsageError: exitCodes.usage,
  SourceRefusal: exitCodes.refused,
  RollbackError: exitCodes.usage,
  UnknownSnapshotError: exitCodes.usage,
  SnapshotGoneError: exitCodes.usage,
  ExportError: exitCodes.usage,
  GuardRefusal: exitCodes.refused,
  PublishingOnHoldError: exitCodes.refused,
  UntrustedPredecessorError: exitCodes.refused,
  BrokenLogError: exitCodes.refused,
  FormatError: exitCodes.refused,
  KeyFileError: exitCodes.usage,
  KeyRefusedError: exitCodes.usage,
  KeyEndedError: exitCodes.usage,
  RunMismatchError: exitCodes.usage,
  PartsMissingError: exitCodes.unreachable,
  CommitLostError: exitCodes.lost,
  CollectedMeanwhileError: exitCodes.lost,
  CommitUnknownError: exitCodes.unreachable,
  StoreAddressError: exitCodes.usage,
  StorageError: exitCodes.unreachable,
  LocalFolderError: exitCodes.unreachable,
  CheckpointFileError: exitCodes.unreachable,
  IntegrityError: exitCodes.mismatch,
  VerificationError: exitCodes.mismatch,
  ForkedLogError: exitCodes.mismatch,
  WrongIndexError: exitCodes.mismatch,
  ApiError: exitCodes.unreachable,
  CopyFolderError: exitCodes.usage,
  CorruptObjectError: exitCodes.unexpected,
  MissingObjectError: exitCodes.unexpected,
  ConfigError: exitCodes.unexpected,
  FailedStepError: exitCodes.unexpected,
};

const meaningOf = (error: unknown) =>
  error instanceof Error && Object.hasOwn(meanings, error.name) ? meanings[error.name] : undefined;

/** The exit code of a command that throws this. */
export function exitCodeOf(error: unknown): ExitCode {
  return meaningOf(error) ?? exitCodes.unexpected;
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
  const expected = meaningOf(error) !== undefined || isSystemError(error);
  shell.say(expected || !(error instanceof Error) ? message : String(error.stack));
  if (error instanceof UsageError) shell.say(`\n${usage}`);
  return exitCode;
}

function messageOf(error: unknown): string {
  const back = isDamage(error) && wayBack(error.key);
  if (back) return `${error.message}. The way back: ${back}.`;
  if (isSystemError(error)) return `cannot ${error.syscall} ${error.path}: ${error.message.split(", ")[0]}`;
  return error instanceof Error ? error.message : String(error);
}

function isDamage(error: unknown): error is Error & { key: string } {
  const names = ["CorruptObjectError", "MissingObjectError", "BrokenLogError"];
  return (
    error instanceof Error && names.includes(error.name) && "key" in error && typeof error.key === "string"
  );
}

/** Whether it is an error of the file system, which the user can resolve: rights, space, a file in the way. */
function isSystemError(error: unknown): error is Error & { syscall: string; path: string } {
  return error instanceof Error && "syscall" in error && "path" in error && typeof error.path === "string";
}

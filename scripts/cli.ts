import { resolve } from "node:path";
import { type ParseArgsOptionsConfig, parseArgs } from "node:util";
import { ConfigError } from "../proxy/config.ts";
import { CollectedMeanwhileError } from "../snapshots/collecting.ts";
import { CommitLostError, CommitUnknownError } from "../snapshots/commits.ts";
import { MissingObjectError } from "../snapshots/objects.ts";
import { GuardRefusal } from "../snapshots/publish/guards.ts";
import { PublishingOnHoldError } from "../snapshots/publish/publish.ts";

import { RollbackError } from "../snapshots/publish/rollback.ts";
import { CorruptObjectError } from "../snapshots/seal.ts";
import { SourceRefusal } from "../snapshots/sources/sources.ts";
import { openStorage } from "../snapshots/storage/open.ts";
import { type Storage, StorageError } from "../snapshots/storage/storage.ts";

/** How every command ends; documented in the README. */
export const exitCodes = { done: 0, unexpected: 1, usage: 2, refused: 3, lost: 4, unreachable: 5 } as const;
export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes];

/** The command line is wrong; the command ends with exit code 2 and prints its usage. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}

/**
 * Reads the arguments strictly. Throws UsageError naming the first one that is unknown or lacks its value.
 */
export function readArguments<const Options extends ParseArgsOptionsConfig>(
  options: Options,
  positionals = false,
) {
  try {
    return parseArgs({ options, allowPositionals: positionals, strict: true });
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
}

/** The word that names a command: the first argument that is no option. */
export function commandName(): string | undefined {
  return process.argv.slice(2).find((argument) => !argument.startsWith("-"));
}

/** Reads the arguments of the command `name`, which takes at most `count` operands. Throws UsageError. */
export function readCommand<const Options extends ParseArgsOptionsConfig>(
  name: string,
  options: Options,
  count = 0,
) {
  const { values, positionals } = readArguments(options, true);
  const operands = positionals.slice(1);
  if (positionals[0] !== name) throw new UsageError(`${name} must come before its options' values`);
  if (operands.length > count) throw new UsageError(`unexpected argument ${JSON.stringify(operands[count])}`);
  return { values, operand: operands[0] };
}

/** The store that --store names. Throws UsageError or StorageError. */
export function openStore(location: string | undefined): Storage {
  return openStorage(requiredOption("store", location), userDirectory(), process.env);
}

/** The integer an option was given, or `otherwise`. Throws UsageError outside `min..max`. */
export function integerOption(
  name: string,
  text: string | undefined,
  { min, max = Number.MAX_SAFE_INTEGER, otherwise }: { min: number; max?: number; otherwise: number },
): number {
  if (text === undefined) return otherwise;
  // Digits first: Number() would also take "1e3", " 5" and "0x10".
  const value = /^(0|[1-9][0-9]*)$/.test(text) ? Number(text) : Number.NaN;
  if (value >= min && value <= max) return value;
  throw new UsageError(`--${name} must be an integer from ${min} to ${max}, not ${JSON.stringify(text)}`);
}

/** The value of an option that cannot be left out. */
export function requiredOption(name: string, value: string | undefined): string {
  if (value) return value;
  throw new UsageError(`--${name} is missing`);
}

/** The folder the user stood in: npm runs scripts in the package's folder and says so in INIT_CWD. */
export function userDirectory(): string {
  return process.env.INIT_CWD ?? process.cwd();
}

/** A path as the user meant it. */
export function userPath(path: string): string {
  return resolve(userDirectory(), path);
}

/** A line for the person at the terminal: stderr, so that stdout holds results only. */
export function say(line: string): void {
  process.stderr.write(`${line}\n`);
}

/** The result on stdout: with `json` one JSON object, else the lines. */
export function report(json: boolean, result: object, lines: readonly string[]): void {
  process.stdout.write(json ? `${JSON.stringify(result)}\n` : lines.map((line) => `${line}\n`).join(""));
}

/** Errors that have a meaning of their own, told without a stack. */
const meanings = [
  [UsageError, exitCodes.usage],
  [SourceRefusal, exitCodes.refused],
  [RollbackError, exitCodes.usage],
  [GuardRefusal, exitCodes.refused],
  [PublishingOnHoldError, exitCodes.refused],
  [CommitLostError, exitCodes.lost],
  [CollectedMeanwhileError, exitCodes.lost],
  [CommitUnknownError, exitCodes.unreachable],
  [StorageError, exitCodes.unreachable],
  [CorruptObjectError, exitCodes.unexpected],
  [MissingObjectError, exitCodes.unexpected],
  [ConfigError, exitCodes.unexpected],
] as const;

const meaningOf = (error: unknown) => meanings.find(([kind]) => error instanceof kind);

/** How a command ends that throws this. */
export function exitCodeOf(error: unknown): ExitCode {
  return meaningOf(error)?.[1] ?? exitCodes.unexpected;
}

/** Runs a command and sets the process's exit code. */
export async function runCommand(usage: string, command: () => Promise<ExitCode | undefined>): Promise<void> {
  try {
    process.exitCode = (await command()) ?? exitCodes.done;
  } catch (error) {
    process.exitCode = exitCodeOf(error);
    if (!(error instanceof Error)) say(String(error));
    else say(meaningOf(error) ? error.message : String(error.stack));
    if (error instanceof UsageError) say(`\n${usage}`);
  }
}

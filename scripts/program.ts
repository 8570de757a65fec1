import { realpathSync } from "node:fs";
import { type ParseArgsOptionDescriptor, parseArgs } from "node:util";
import { nearest } from "../schemas/nearest.ts";
import { messageOf } from "../snapshots/store/errors.ts";
import {
  type Bounds,
  type ExitCode,
  exitCodes,
  integerOption,
  processShell,
  reportFailure,
  requiredOption,
  type Shell,
  usageError,
} from "./cli.ts";

export interface Option extends ParseArgsOptionDescriptor {
  /** Placeholder of the value in the usage, for options that take one. */
  value?: string;
  required?: boolean;
  /** Bounds of the value, for options that take an integer. */
  bounds?: Bounds;
  does: string;
  /** Describes the default, where it is not a fixed value. */
  otherwise?: string;
}

type Options = Record<string, Option>;

export const flag = (does: string) => ({ type: "boolean", does }) as const;
type More = Pick<Option, "required" | "otherwise"> & { default?: string };
/** An option that takes a value. */
export const text = <const M extends More>(value: string, does: string, more: M = {} as M) =>
  ({ type: "string", value, does, ...more }) as const;
/** An option that takes an integer. */
export const number = <const M extends More>(does: string, bounds: Bounds, more: M = {} as M) =>
  ({ ...text("N", does, more), bounds }) as const;
export const jsonOption = { json: flag("one JSON object on stdout, nothing else") };

/** A command, with everything that the help says about it. */
export interface Command {
  /** "" when the program has only this command. */
  name: string;
  /** Placeholders of the operands, separated by spaces. */
  operand?: string;
  does: string;
  options: Options;
  /** It is done unless it returns another exit code. */
  run(args: readonly string[], shell: Shell): Promise<ExitCode | undefined>;
}

/**
 * A command before its arguments are parsed. `run` gets the values of the options, and the operands joined by spaces.
 */
interface CommandSource<Named extends Options> extends Omit<Command, "options" | "run"> {
  options: Named;
  run(values: ValuesOf<Named>, operand: string, shell: Shell): Promise<ExitCode | undefined>;
}

/** A script of package.json and its commands. */
export interface Program {
  /** How users call it: `npm run keys --`. */
  call: string;
  commands: readonly Command[];
  /** Paragraphs at the end of the help. */
  notes?: string;
}

type ValueOf<One extends Option> = One extends { bounds: Bounds }
  ? number
  : One extends { type: "boolean" }
    ? boolean
    : string;

export type ValuesOf<Named extends Options> = {
  [Name in keyof Named]: Named[Name] extends { required: true } | { default: string }
    ? ValueOf<Named[Name]>
    : ValueOf<Named[Name]> | undefined;
};

/** Makes a command that parses its arguments strictly. An option of another command is an unknown one here. */
export function command<const Named extends Options>(source: CommandSource<Named>): Command {
  return {
    ...source,
    run(args, shell) {
      const { values, positionals } = readArguments(args, source.options);
      const operands = source.name === "" ? positionals : positionals.slice(1);
      if (source.name !== "" && positionals[0] !== source.name)
        throw usageError(`${source.name} must come before its options' values`);
      const most = source.operand?.split(" ").length ?? 0;
      if (operands.length > most) throw usageError(`unexpected argument ${JSON.stringify(operands[most])}`);
      return source.run(values, operands.join(" "), shell);
    },
  };
}

function readArguments<Named extends Options>(args: readonly string[], options: Named) {
  const { values, positionals } = parse(args, options);
  const read: Record<string, unknown> = { ...values };
  for (const [name, { required, bounds }] of Object.entries(options)) {
    const value = values[name] as string | undefined;
    if (required) requiredOption(name, value);
    if (bounds && value !== undefined) read[name] = integerOption(name, value, bounds);
  }
  return { values: read as ValuesOf<Named>, positionals };
}

function parse(args: readonly string[], options: Options) {
  try {
    return parseArgs({ args, options, allowPositionals: true, strict: true });
  } catch (error) {
    const message = messageOf(error);
    // Node's message goes on with advice about operands that begin with a dash, which no command accepts.
    const fault = /^Unknown option '--([^']*)'/.exec(message);
    if (!fault) throw usageError(message);
    throw usageError(`unknown option --${fault[1]}${question(fault[1]!, Object.keys(options), "--")}`);
  }
}

function question(text: string, names: readonly string[], prefix = ""): string {
  const suggestion = nearest(text, names);
  return suggestion === undefined ? "" : `. Did you mean ${prefix}${suggestion}?`;
}

/** Runs a program when Node was started with its file. Other files may import it too. */
export async function runAsScript(program: Program, file: string): Promise<void> {
  const [, script, ...args] = process.argv;
  if (script === undefined || realpathSync(script) !== file) return;
  process.exitCode = await runProgram(program, args, processShell());
}

/** Runs the command that the arguments name, or shows the help, and returns the exit code. Never throws. */
export async function runProgram(program: Program, args: readonly string[], shell: Shell): Promise<ExitCode> {
  const named = namedCommand(program, args);
  const commands = named ? [named] : program.commands;
  const json = args.includes("--json") && commands.some(({ options }) => options.json?.type === "boolean");
  try {
    if (wantsHelp(args)) {
      shell.print(help({ ...program, commands }));
      return exitCodes.done;
    }
    requireUntaken({ ...program, commands }, args, shell.env);
    if (!named) throw usageError(unknownCommand(program, args));
    return (await named.run(args, shell)) ?? exitCodes.done;
  } catch (error) {
    return reportFailure(error, shell, {
      json,
      usage: `${usage({ ...program, commands })}\n--help tells of every option.`,
    });
  }
}

/** npm itself gives this option a value in every script. If npm takes ours, it only costs time. */
const alwaysOfNpm = "cache";

/**
 * Throws USAGE when npm took one of our options: it takes those before `--` as its own and shows them in the
 * environment only. A dry run of gc would then delete.
 */
function requireUntaken({ call, commands }: Program, args: readonly string[], env: NodeJS.ProcessEnv): void {
  const passed = new Set(args.map((argument) => argument.split("=")[0]));
  const taken = new Set(
    commands
      .flatMap(({ options }) => Object.keys(options))
      .filter((name) => name !== alwaysOfNpm)
      .filter((name) => env[`npm_config_${name.replaceAll("-", "_")}`] && !passed.has(`--${name}`)),
  );
  if (taken.size === 0) return;
  const names = [...taken].map((name) => `--${name}`).join(", ");
  throw usageError(`npm took ${names} for itself; begin with \`${call}\`, and put all options behind that`);
}

const wordOf = (args: readonly string[]) => args.find((argument) => !argument.startsWith("-"));

function namedCommand({ commands }: Program, args: readonly string[]): Command | undefined {
  if (commands[0]?.name === "") return commands[0];
  return commands.find(({ name }) => name === wordOf(args));
}

function unknownCommand({ commands }: Program, args: readonly string[]): string {
  const names = commands.map(({ name }) => name);
  return `the command must be one of ${names.join(", ")}${question(wordOf(args) ?? "", names)}`;
}

function wantsHelp(args: readonly string[]): boolean {
  const end = args.indexOf("--");
  return args.slice(0, end < 0 ? undefined : end).some((argument) => ["--help", "-h"].includes(argument));
}

function usage({ call, commands }: Program): string {
  const lines = commands.map(({ name, operand, options }) => {
    const optionTexts = Object.entries(options).map(([option, { required, ...rest }]) => {
      const text = optionText(option, rest);
      return required ? text : `[${text}]`;
    });
    return [call, name, operand, ...optionTexts].filter(Boolean).join(" ");
  });
  return lines.length === 1
    ? `Usage: ${lines[0]}`
    : ["Usage:", ...lines.map((line) => `  ${line}`)].join("\n");
}

function optionText(name: string, { value }: Pick<Option, "value">): string {
  return value === undefined ? `--${name}` : `--${name} ${value}`;
}

function help(program: Program): string {
  const parts = program.commands.map(({ name, does, options }) => {
    const rows = Object.entries(options).map(
      ([option, entry]) => [optionText(option, entry), `${entry.does} (${defaultOf(entry)})`] as const,
    );
    const head = name === "" || program.commands.length === 1 ? does : `${name}: ${does}`;
    return [head, ...columns([...rows, ["--help, -h", "shows this"]])].join("\n");
  });
  return [usage(program), ...parts, ...(program.notes ? [program.notes] : [])].join("\n\n");
}

function defaultOf({ required, otherwise, type, default: fixed }: Option): string {
  if (required) return "required";
  return `default: ${otherwise ?? fixed ?? (type === "boolean" ? "off" : "none")}`;
}

export function columns(rows: readonly (readonly [string, string])[]): string[] {
  const width = Math.max(...rows.map(([first]) => first.length));
  return rows.map(([first, second]) => `  ${first.padEnd(width)}  ${second}`);
}

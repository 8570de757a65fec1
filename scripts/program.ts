import { type ParseArgsOptionDescriptor, parseArgs } from "node:util";
import { nearest } from "../snapshots/read/nearest.ts";
import { type ExitCode, exitCodes, reportFailure, UsageError } from "./cli.ts";
import type { Shell } from "./shell.ts";

/** An option of a command, as parseArgs takes it and as the help tells it. */
export interface Option extends ParseArgsOptionDescriptor {
  /** Stands for the value in the usage; of options that take one. */
  value?: string;
  required?: boolean;
  does: string;
  /** What holds when it is left out, where that is no fixed value. */
  otherwise?: string;
}

type Options = Record<string, Option>;

/** A command whose arguments are known. */
export interface Command {
  /** "" where it is all that its program does. */
  name: string;
  operand?: string;
  does: string;
  options: Options;
  run(args: readonly string[], shell: Shell): Promise<ExitCode | undefined>;
}

/** What a command is made of; `run` gets the options' values and the operand, "" where none was given. */
interface CommandSource<Named extends Options> extends Omit<Command, "options" | "run"> {
  options: Named;
  run(values: ValuesOf<Named>, operand: string, shell: Shell): Promise<ExitCode | undefined>;
}

/** The commands of one script of package.json. */
export interface Program {
  /** How it is called: `npm run keys --`. */
  call: string;
  commands: readonly Command[];
  /** Paragraphs under the help. */
  notes?: string;
}

type Parsed<Named extends Options> = ReturnType<typeof parse<Named>>;

/** What a command gets of its options. */
export type ValuesOf<Named extends Options> = Parsed<Named>["values"];

function parse<Named extends Options>(args: readonly string[], options: Named) {
  return parseArgs({ args, options, allowPositionals: true, strict: true });
}

/** Makes a command that reads its arguments strictly: by what it takes itself, not by what others take. */
export function command<const Named extends Options>(source: CommandSource<Named>): Command {
  return {
    ...source,
    run(args, shell) {
      const { values, positionals } = readArguments(args, source.options);
      const operands = source.name === "" ? positionals : positionals.slice(1);
      if (source.name !== "" && positionals[0] !== source.name)
        throw new UsageError(`${source.name} must come before its options' values`);
      const first = source.operand ? 1 : 0;
      if (operands.length > first)
        throw new UsageError(`unexpected argument ${JSON.stringify(operands[first])}`);
      return source.run(values, operands[0] ?? "", shell);
    },
  };
}

function readArguments<Named extends Options>(args: readonly string[], options: Named): Parsed<Named> {
  try {
    return parse(args, options);
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    // Node goes on with advice on arguments that begin with a dash, which no command takes.
    const fault = /^Unknown option '--([^']*)'/.exec(message);
    if (!fault) throw new UsageError(message);
    throw new UsageError(`unknown option --${fault[1]}${question(fault[1]!, Object.keys(options), "--")}`);
  }
}

function question(text: string, known: readonly string[], prefix = ""): string {
  const meant = nearest(text, known);
  return meant === undefined ? "" : `. Did you mean ${prefix}${meant}?`;
}

/** Runs what the arguments name, or shows its help, and returns the exit code. It throws nothing. */
export async function runProgram(program: Program, args: readonly string[], shell: Shell): Promise<ExitCode> {
  const named = namedCommand(program, args);
  const commands = named ? [named] : program.commands;
  const json = args.includes("--json") && commands.some(({ options }) => options.json?.type === "boolean");
  try {
    if (wantsHelp(args)) {
      shell.print(help({ ...program, commands }));
      return exitCodes.done;
    }
    if (!named) throw new UsageError(unknownCommand(program, args));
    return (await named.run(args, shell)) ?? exitCodes.done;
  } catch (error) {
    return reportFailure(error, shell, {
      json,
      usage: `${usage({ ...program, commands })}\n--help tells of every option.`,
    });
  }
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

/** The line that calls each command. */
function usage({ call, commands }: Program): string {
  const lines = commands.map(({ name, operand, options }) => {
    const shown = Object.entries(options).map(([option, { required, ...rest }]) => {
      const text = optionText(option, rest);
      return required ? text : `[${text}]`;
    });
    return [call, name, operand, ...shown].filter(Boolean).join(" ");
  });
  return lines.length === 1
    ? `Usage: ${lines[0]}`
    : ["Usage:", ...lines.map((line) => `  ${line}`)].join("\n");
}

function optionText(name: string, { value }: Pick<Option, "value">): string {
  return value === undefined ? `--${name}` : `--${name} ${value}`;
}

/** The usage, what each command does, and every option with its default. */
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

/** Two columns of a help, the first as wide as its widest row. */
export function columns(rows: readonly (readonly [string, string])[]): string[] {
  const width = Math.max(...rows.map(([first]) => first.length));
  return rows.map(([first, second]) => `  ${first.padEnd(width)}  ${second}`);
}

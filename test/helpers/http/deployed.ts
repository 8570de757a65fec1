import { readFileSync } from "node:fs";
import { join } from "node:path";

const root = join(import.meta.dirname, "../../..");

/** Where the units look for the project. */
export const installedIn = "/opt/protocol-risk-score-service";

/** A file of .github/deploy with some of its texts replaced. Throws for one that it does not have. */
export function deployed(file: string, replacements: Readonly<Record<string, string>> = {}): string {
  let text = readFileSync(join(root, ".github/deploy", file), "utf8");
  for (const [from, to] of Object.entries(replacements)) {
    if (!text.includes(from)) throw new Error(`${file} does not have ${from}`);
    text = text.replaceAll(from, to);
  }
  return text;
}

/** Settings of a unit file by name, each with its values in order. A line that ends in \ continues on the next. */
export function settingsOf(unit: string): ReadonlyMap<string, string[]> {
  const settings = new Map<string, string[]>();
  for (const line of unit.replace(/\\\n\s*/g, "").split("\n")) {
    const [, name, value] = /^(\w+)=(.*)$/.exec(line) ?? [];
    if (name !== undefined) settings.set(name, [...(settings.get(name) ?? []), value!]);
  }
  return settings;
}

/** Variables of an environment file by name, without those that are commented out. */
export function variablesOf(environment: string): Record<string, string> {
  const lines = environment.matchAll(/^([A-Z_0-9]+)=(.*)$/gm);
  return Object.fromEntries([...lines].map(([, name, value]) => [name!, value!]));
}

/** A process as a unit starts it. */
export interface UnitCommand {
  program: string;
  args: string[];
  cwd: string;
  env: Record<string, string>;
}

/**
 * The command of a service with the variables of its environment file, run from this checkout. `replaced` overrides
 * variables, and `folder` stands in for the folders that systemd would make. Throws for a variable that the file does
 * not mention, not even commented out.
 */
export function unitCommand(
  name: string,
  replaced: Readonly<Record<string, string>>,
  folder: string,
): UnitCommand {
  const file = deployed(`${name}.env`);
  for (const variable of Object.keys(replaced))
    if (!new RegExp(`^#?${variable}=`, "m").test(file)) throw new Error(`${name}.env has no ${variable}`);
  const settings = settingsOf(deployed(`${name}.service`));
  const given = (settings.get("Environment") ?? []).join("\n").replaceAll(/%[CS]|\/var\/tmp/g, folder);
  const env = { ...variablesOf(given), ...variablesOf(file), ...replaced };
  const [program, ...args] = settings
    .get("ExecStart")![0]!
    .split(/ +/)
    .map((word) =>
      word.replace(/^\$\{(\w+)\}$/, (_, variable) => env[variable] ?? "").replace(/%[CS]/, folder),
    );
  return { program: program!.replace(installedIn, root), args, cwd: root, env };
}

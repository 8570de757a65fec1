import { readFileSync } from "node:fs";
import { stripTypeScriptTypes } from "node:module";
import { type ImportSpecifier, initSync, parse } from "es-module-lexer";
import { lean } from "./static-file.ts";

let recompute: Buffer | undefined;

/** What the client loads to evaluate queries. Linked at the first call, which takes a fifth of a second. */
export function recomputeModule(): Buffer {
  recompute ??= Buffer.from(lean(link(new URL("client/recompute.mjs", import.meta.url))));
  return recompute;
}

/** A module as a function scope. */
interface Scope {
  /** The constant that holds its exports. */
  place: string;
  text: string;
  exports: ReadonlySet<string>;
}

/**
 * The text of one module that has the exports of the module at `entry` and imports nothing. Every module becomes the
 * scope of a function, so names do not clash. Throws an Error that names the module with what cannot be linked: modules
 * that are no files beside it, other imports and exports than those of names, and modules that import one another.
 */
export function link(entry: URL): string {
  initSync();
  // In the order in which they run; undefined while the imports of a module are linked.
  const scopes = new Map<string, Scope | undefined>();
  const scopeAt = (url: URL): Scope => {
    const known = scopes.get(url.href);
    if (known) return known;
    if (scopes.has(url.href)) throw new Error(`${url.href} imports itself`);
    scopes.set(url.href, undefined);
    const scope = scopeOf(url, (specifier) => scopeAt(new URL(specifier, url)), `$${scopes.size}`);
    // Behind those that it imports.
    scopes.delete(url.href);
    scopes.set(url.href, scope);
    return scope;
  };
  const { place, exports } = scopeAt(entry);
  const texts = [...scopes.values()].map((scope) => scope!.text);
  return `${texts.join("")}export const { ${[...exports].join(", ")} } = ${place};\n`;
}

function scopeOf(url: URL, scopeAt: (specifier: string) => Scope, place: string): Scope {
  const refuse = (what: string): never => {
    throw new Error(`${url.href} cannot be linked: ${what}`);
  };
  const text = sourceOf(url);
  const [imports, exports] = parse(text);
  /** What the scope returns, by exported name. */
  const returned = new Map<string, string>();
  const edits: { from: number; to: number; text: string }[] = [];

  const edit = ({ n: specifier, d, ss: from, se: to }: ImportSpecifier) => {
    if (d !== -1 || !specifier?.startsWith(".")) refuse(text.slice(from, to));
    const source = scopeAt(specifier!);
    const statement = text.slice(from, to);
    const [, verb, list] = /^(import|export)\s*(\{[^}]*\}|\*)\s*from\b/.exec(statement) ?? refuse(statement);
    if (list === "*" && verb === "import") refuse(statement);
    const names = list === "*" ? [...source.exports].map((name) => [name, name]) : namesIn(list!);
    for (const [name] of names)
      if (!source.exports.has(name!)) refuse(`${specifier} does not export ${name}`);
    if (verb === "export") for (const [name, as] of names) returned.set(as!, `${source.place}.${name}`);
    const pairs = names.map(([name, as]) => (name === as ? name : `${name}: ${as}`));
    const bound = `const { ${pairs.join(", ")} } = ${source.place};`;
    edits.push({ from, to: endOf(text, to), text: verb === "import" ? bound : "" });
  };
  for (const one of imports) edit(one);

  for (const { n: name, ln: local, ss: from, s } of exports) {
    if (name === "default") refuse("export default");
    // Of another module's.
    if (local === undefined) continue;
    returned.set(name, local);
    const list = /^export\s*\{[^}]*\}/.exec(text.slice(from))?.[0];
    const to = list === undefined ? from + "export ".length : endOf(text, from + list.length);
    if (to > s && list === undefined) refuse(text.slice(from, to));
    if (edits.every((other) => other.from !== from)) edits.push({ from, to, text: "" });
  }

  let body = "";
  let at = 0;
  for (const { from, to, text: replacement } of edits.toSorted((a, b) => a.from - b.from)) {
    body += text.slice(at, from) + replacement;
    at = to;
  }
  const result = [...returned].map(([name, value]) => (name === value ? name : `${name}: ${value}`));
  return {
    place,
    text: `const ${place} = (() => {\n${body}${text.slice(at)}\nreturn { ${result.join(", ")} };\n})();\n`,
    exports: new Set(returned.keys()),
  };
}

/** The names in the braces of an import or export: `{ a, b as c }` has a as a, and b as c. */
function namesIn(braces: string): [name: string, as: string][] {
  const names = braces
    .slice(1, -1)
    .split(",")
    .map((name) => name.trim());
  return names
    .filter((name) => name !== "")
    .map((name) => {
      const [own, as = own] = name.split(/\s+as\s+/);
      return [own!, as!];
    });
}

/** Where a statement ends whose last word ends at `end`. */
const endOf = (text: string, end: number) => (text[end] === ";" ? end + 1 : end);

/** A module in JavaScript. */
function sourceOf(url: URL): string {
  const text = readFileSync(url, "utf8");
  if (!url.pathname.endsWith(".ts")) return text;
  // Node says at the first call that this may change. It is what Node runs these sources with.
  const { emitWarning } = process;
  process.emitWarning = () => {};
  try {
    return stripTypeScriptTypes(text);
  } finally {
    process.emitWarning = emitWarning;
  }
}

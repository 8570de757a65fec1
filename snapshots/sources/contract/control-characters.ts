import { quoted } from "../duckdb/sql-literals.ts";

// Control characters and tags have no picture: they move cursors, end texts early, or carry words that a person does not
// see and a language model reads. Characters that change the direction of text stay; languages need them.

export const controlsRule = "must have no control characters except tab, LF and CR, and no Unicode tags";

const controls = "\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f";
const tags = [0xe0000, 0xe007f].map((point) => String.fromCodePoint(point)).join("-");
/** Members of a character class, the same in JavaScript, in DuckDB's RE2 and in JSON Schema. */
export const unwanted = controls + tags;
const pattern = quoted(`[${unwanted}]`);

/** SQL that is true for a text without them. */
export const cleanText = (value: string) => `NOT regexp_matches(${value}, ${pattern})`;

/** SQL that is true for JSON without them in its texts and in the names of its members. */
export function cleanJson(value: string): string {
  // Written anew, it has no escapes other than the short ones and those of control characters.
  const written = `replace(to_json([${value}])::VARCHAR, '\\\\', '')`;
  return `(${cleanText(written)} AND NOT regexp_matches(${written}, '\\\\[ubf]'))`;
}

const [backslash, escapes] = [0x5c, [...Buffer.from("ubf")]];

/** Whether a record as DuckDB writes it has any of them, in a text or in the name of a member. */
export function hasControls(json: Buffer): boolean {
  // Looked for by the bytes that they begin with, of which few texts have any. The last two are C1 and tags.
  return (
    json.includes(0x7f) ||
    follows(json, backslash, (at) => escapes.includes(json[at]!)) ||
    follows(json, 0xc2, (at) => json[at]! < 0xa0) ||
    follows(json, 0xf3, (at) => json[at] === 0xa0 && json[at + 1]! < 0x82)
  );
}

/** Whether the bytes behind one of these are such. Never are they two of these in a row. */
function follows(json: Buffer, byte: number, are: (at: number) => boolean): boolean {
  for (let at = json.indexOf(byte); at >= 0; at = json.indexOf(byte, at + 2)) if (are(at + 1)) return true;
  return false;
}

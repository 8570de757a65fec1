import { quoted } from "../duckdb/sql-literals.ts";

// Control characters and tags are invisible: they move cursors, end texts early, or carry words that a language model
// reads and a person does not see. Characters that change the direction of text stay; languages need them.

export const controlsRule = "must have no control characters except tab, LF and CR, and no Unicode tags";

const controls = "\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f";
const tags = [0xe0000, 0xe007f].map((point) => String.fromCodePoint(point)).join("-");
/** Members of a character class, with the same meaning in JavaScript, in DuckDB's RE2 and in JSON Schema. */
export const unwanted = controls + tags;
const pattern = quoted(`[${unwanted}]`);

/** SQL that is true for a text without these characters. */
export const cleanText = (value: string) => `NOT regexp_matches(${value}, ${pattern})`;

/** SQL that is true for JSON without these characters in its texts and names of members. */
export function cleanJson(value: string): string {
  // Written anew, JSON has no escapes but the short ones and those of control characters.
  const written = `replace(to_json([${value}])::VARCHAR, '\\\\', '')`;
  return `(${cleanText(written)} AND NOT regexp_matches(${written}, '\\\\[ubf]'))`;
}

const [backslash, escapes] = [0x5c, [...Buffer.from("ubf")]];

/** Looks at texts and names of members in a record as DuckDB writes it. */
export function hasControls(json: Buffer): boolean {
  // Searches for first bytes that few texts have. The last two begin C1 controls and tags.
  return (
    json.includes(0x7f) ||
    follows(json, backslash, (at) => escapes.includes(json[at]!)) ||
    follows(json, 0xc2, (at) => json[at]! < 0xa0) ||
    follows(json, 0xf3, (at) => json[at] === 0xa0 && json[at + 1]! < 0x82)
  );
}

/** Whether any such byte is followed by what `are` looks for. Two of these bytes never follow each other. */
function follows(json: Buffer, byte: number, are: (at: number) => boolean): boolean {
  for (let at = json.indexOf(byte); at >= 0; at = json.indexOf(byte, at + 2)) if (are(at + 1)) return true;
  return false;
}

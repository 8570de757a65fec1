/** Text that is already escaped. */
export class Markup {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

type Inserted = Markup | string | number | readonly Inserted[];

/** Neither XML nor HTML may hold these in any spelling: control characters but tab and line ends, and noncharacters. */
const forbidden = /[^\P{Cc}\t\n\r]|[\ufffe\uffff]/gu;

const escapes: Record<string, string> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

function textOf(inserted: Inserted): string {
  if (inserted instanceof Markup) return inserted.text;
  if (Array.isArray(inserted)) return inserted.map(textOf).join("");
  return String(inserted)
    .toWellFormed()
    .replace(forbidden, "\ufffd")
    .replace(/[&<>"']/g, (character) => escapes[character]!);
}

/** HTML or XML whose inserted values stay text, in elements and in quoted attributes. */
export function markup(parts: TemplateStringsArray, ...inserted: readonly Inserted[]): Markup {
  return new Markup(parts.map((part, index) => part + textOf(inserted[index] ?? "")).join(""));
}

/** JSON for a `script` element: no text in it can end the element or begin a comment. */
export function jsonMarkup(value: unknown): Markup {
  const hidden = (character: string) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return new Markup(JSON.stringify(value).replace(/[<>&\u2028\u2029]/g, hidden));
}

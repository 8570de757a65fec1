/**
 * The rule for a value. The published record, the checks of sources, filters, CSV and exports derive from shapes. This
 * module imports no library, so that readers can load it, too.
 */
export type Shape = { meaning?: string } & (
  | TextShape
  | { kind: "integer"; min: number; max: number }
  | { kind: "double"; min?: number; max?: number }
  | { kind: "boolean" | "time" | "any" }
  /** With `each`, the list has one item for each of these values of that member. */
  | { kind: "list"; of: Shape; each?: { member: string; values: readonly string[] } }
  | { kind: "struct"; members: Members }
);

interface TextShape {
  kind: "text";
  notEmpty?: true;
  /** The most bytes of UTF-8. */
  maxBytes?: number;
  values?: readonly string[];
  pattern?: RegExp;
  /** The pattern in words, for refusals. */
  rule?: string;
  /** Texts that match the pattern and are refused nevertheless. */
  reserved?: readonly string[];
}

/** The members of a record by their published names, in the order of the published JSON. */
export type Members = Readonly<Record<string, Shape>>;

export type TypeOf<S extends Shape> = S extends { kind: "text"; values: readonly (infer Value)[] }
  ? Value
  : S extends { kind: "text" | "time" }
    ? string
    : S extends { kind: "integer" | "double" }
      ? number
      : S extends { kind: "boolean" }
        ? boolean
        : S extends { kind: "list"; of: infer Item extends Shape }
          ? TypeOf<Item>[]
          : S extends { kind: "struct"; members: infer M extends Members }
            ? RecordOf<M>
            : unknown;

export type RecordOf<M extends Members> = { -readonly [Name in keyof M]: TypeOf<M[Name]> };

/** Up to 2^53-1, which JavaScript can represent exactly. */
export const count = { kind: "integer", min: 0, max: Number.MAX_SAFE_INTEGER } as const;
export const boolean = { kind: "boolean" } as const;
export const double = { kind: "double" } as const;
export const text = { kind: "text" } as const;
export const someText = { kind: "text", notEmpty: true } as const;
/** A time with its offset in a source; UTC with three decimals, `2026-02-02T08:21:59.229Z`, where it is published. */
export const time = { kind: "time" } as const;
/** A value of any type that JSON can hold exactly. */
export const any = { kind: "any" } as const;

/**
 * The most bytes of UTF-8 in a label (INTERFACE 8.3). A cursor carries labels percent-encoded and then in base64, which
 * makes four bytes of one, and the cursor has to fit into the head of a response.
 */
export const maxLabelBytes = 256;
/** A text that a filter compares whole, or a version (INTERFACE 8.3). */
export const label = { kind: "text", maxBytes: maxLabelBytes } as const;

export const httpUrl = {
  kind: "text",
  pattern: /^https?:\/\//,
  rule: "must be an http or https URL",
} as const;

/** Both bounds are included. */
export const integer = <const B extends { min: number; max: number }>({ min, max }: B) =>
  ({ kind: "integer", min, max }) as const;

export const oneOf = <const V extends readonly string[]>(values: V) => ({ kind: "text", values }) as const;

export const list = <const S extends Shape>(of: S) => ({ kind: "list", of }) as const;

export const struct = <const M extends Members>(members: M) => ({ kind: "struct", members }) as const;

export const fitsIn = (text: string, maxBytes: number): boolean =>
  // A UTF-16 code unit takes at most three bytes.
  text.length * 3 <= maxBytes ||
  (text.length <= maxBytes && new TextEncoder().encode(text).length <= maxBytes);

/** A SHA-256 in 64 lower-case hex digits. */
export const digestPattern = /^[0-9a-f]{64}$/;

/** Parses a text of decimal digits; undefined for any other text, and outside `min..max`. */
export function integerOf(text: string, min: number, max = Number.MAX_SAFE_INTEGER): number | undefined {
  // The pattern comes first, because Number() also accepts "1e3", " 5" and "0x10".
  const value = /^(0|[1-9][0-9]*)$/.test(text) ? Number(text) : Number.NaN;
  return value >= min && value <= max ? value : undefined;
}

/** The name of a member in sources: `resolvedAt` is `resolved_at` there. */
export function sourceName(published: string): string {
  return published.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

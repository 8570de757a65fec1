import { fitsIn } from "../../schemas/shapes.ts";
import { formatVersion } from "../../schemas/versions.ts";
import { textOf } from "../format/bytes.ts";
import { CorruptObjectError, FormatError } from "./errors.ts";

const update = "use a newer version of this program";
const startAnew = "publish into a new store; from an earlier format only keys/ carries over, by copying it";

/** `what` names these bytes in the error. */
export function parseJson(key: string, bytes: Uint8Array, what = "it"): unknown {
  try {
    return JSON.parse(textOf(bytes));
  } catch (error) {
    throw new CorruptObjectError(key, `${what} is not JSON`, { cause: error });
  }
}

export function versionIn(value: unknown): unknown {
  return typeof value === "object" && value && "formatVersion" in value ? value.formatVersion : undefined;
}

export function unknownVersion(key: string, version: unknown): CorruptObjectError {
  // A hostile one need not even be a number.
  if (typeof version !== "number") return new CorruptObjectError(key, "it has no format version");
  const reason = `it has format version ${version}; this reader knows version ${formatVersion}`;
  return new FormatError(key, `${reason}: ${version > formatVersion ? update : startAnew}`);
}

/**
 * A value in the JSON of an object, and its path there, for readers that have no zod. The object's author may be
 * hostile: every result was checked, and anything else throws a CorruptObjectError that names the path.
 */
export class JsonValue {
  readonly value: unknown;
  readonly #key: string;
  readonly #path: string;

  constructor(key: string, value: unknown, path = "") {
    this.#key = key;
    this.value = value;
    this.#path = path;
  }

  /** A missing member is refused once its value is read. */
  member(name: string): JsonValue {
    const object = this.#object();
    const path = this.#path === "" ? name : `${this.#path}.${name}`;
    return new JsonValue(this.#key, Object.hasOwn(object, name) ? object[name] : undefined, path);
  }

  members(): [name: string, member: JsonValue][] {
    return Object.keys(this.#object()).map((name) => [name, this.member(name)]);
  }

  items(maxLength = Number.POSITIVE_INFINITY): JsonValue[] {
    if (!Array.isArray(this.value) || this.value.length > maxLength) this.refuse();
    return this.value.map((item, index) => new JsonValue(this.#key, item, `${this.#path}.${index}`));
  }

  pair(): [number, number] {
    const items = this.items(2);
    if (items.length !== 2) this.refuse();
    return [items[0]!.integer(0), items[1]!.integer(0)];
  }

  integer(min = Number.MIN_SAFE_INTEGER, max = Number.MAX_SAFE_INTEGER): number {
    const { value } = this;
    if (!Number.isSafeInteger(value)) this.refuse();
    const integer = value as number;
    if (!(integer >= min && integer <= max)) this.refuse();
    return integer;
  }

  /** A text of at most `maxBytes` in UTF-8. */
  text(maxBytes = Number.POSITIVE_INFINITY): string {
    if (typeof this.value !== "string" || !fitsIn(this.value, maxBytes)) this.refuse();
    return this.value;
  }

  refuse(): never {
    throw new CorruptObjectError(this.#key, `it is not as documented: ${this.#path}`);
  }

  #object(): Record<string, unknown> {
    const { value } = this;
    if (typeof value !== "object" || value === null || Array.isArray(value)) this.refuse();
    return value as Record<string, unknown>;
  }
}

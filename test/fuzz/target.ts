import { type AnyErrorCode, isFault } from "../../schemas/errors.ts";

/** What reads bytes of others, and what must hold whatever they are. */
export interface Target {
  /** Sound inputs, which fuzzing begins with. */
  seeds(): readonly (Uint8Array | string)[] | Promise<readonly (Uint8Array | string)[]>;
  /** Throws when something is broken that must hold. The time and the memory that it takes are bounded by the fuzzer. */
  run(input: Buffer): void | Promise<void>;
  /** Texts that inputs are made of beside the words of seeds, which are hard to find by chance. */
  words?: readonly string[];
  /** Input bytes at most; 4,096 unless it says otherwise. */
  maxBytes?: number;
  /** Ends what it has started. */
  end?(): Promise<void>;
}

/** A class of errors, or the code of a Fault. */
type Documented = (abstract new (...args: never[]) => Error) | AnyErrorCode;

/** Messages are for people and for logs, however long the input is. */
const maxMessage = 2000;

/** The result of reading; undefined where it is refused with one of these errors, and with no other. */
export function refused<T>(read: () => T, ...documented: Documented[]): T | undefined {
  try {
    return read();
  } catch (error) {
    requireDocumented(error, documented);
    return undefined;
  }
}

/** The same of reading that takes a while. */
export async function refusedLater<T>(
  read: () => Promise<T>,
  ...documented: Documented[]
): Promise<T | undefined> {
  try {
    return await read();
  } catch (error) {
    requireDocumented(error, documented);
    return undefined;
  }
}

function requireDocumented(error: unknown, documented: readonly Documented[]): void {
  const isKnown = (known: Documented) =>
    typeof known === "string" ? isFault(error, known) : error instanceof known;
  if (!(error instanceof Error && documented.some(isKnown))) throw error;
  need(error.message.length <= maxMessage, `a message of ${error.message.length} characters`);
}

/** Throws unless something holds. */
export function need(holds: boolean, otherwise: string): asserts holds {
  if (!holds) throw new Error(`Broken: ${otherwise}`);
}

/** Throws unless two values are the same JSON. */
export function needSame(a: unknown, b: unknown, what: string): void {
  const [left, right] = [JSON.stringify(a), JSON.stringify(b)];
  if (left !== right)
    throw new Error(`Broken: ${what}: ${left?.slice(0, 500)} is not ${right?.slice(0, 500)}`);
}

/** An input in two parts, with the first zero byte between them. */
export function parted(input: Buffer): [head: Buffer, body: Buffer] {
  const cut = input.indexOf(0);
  return cut < 0 ? [input, input.subarray(input.length)] : [input.subarray(0, cut), input.subarray(cut + 1)];
}

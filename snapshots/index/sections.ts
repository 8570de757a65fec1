import { z } from "zod";
import { CorruptObjectError, requireEncoding } from "../store/errors.ts";
import { maxHeaderBytes } from "../store/layout.ts";
import { parseObject } from "../store/records.ts";

// Objects that consist of a magic, a header in JSON, and sections of numbers or bytes (snapshots/SPEC.md, "Segments").

const alignment = 8;

/** Where a header says that each section is: its offset behind the header, and its bytes. */
export const SectionTable = z.record(z.string(), z.tuple([z.int().min(0), z.int().min(0)]));
export type SectionTable = z.infer<typeof SectionTable>;

function padding(length: number): Buffer {
  return Buffer.alloc((alignment - (length % alignment)) % alignment);
}

/** Collects sections, each padded to the alignment. */
export class SectionWriter {
  readonly sections: Record<string, [offset: number, bytes: number]> = {};
  readonly parts: Buffer[] = [];
  bytes = 0;
  readonly #added = new Map<string, Buffer>();

  add(name: string, data: Uint8Array | Uint16Array | Uint32Array): void {
    const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
    const filler = padding(bytes.length);
    this.sections[name] = [this.bytes, bytes.length];
    this.#added.set(name, bytes);
    this.parts.push(bytes, filler);
    this.bytes += bytes.length + filler.length;
  }

  /** The bytes of a section that was added. */
  get(name: string): Buffer {
    return this.#added.get(name)!;
  }
}

/** The bytes of an object. `parts` are the sections, as SectionWriter pads them. */
export function sealSections(magic: Buffer, header: object, parts: readonly Buffer[]): Buffer {
  const json = Buffer.from(JSON.stringify(header));
  const lengths = Buffer.alloc(8);
  lengths.writeUInt32LE(json.length, 0);
  const head = Buffer.concat([magic, lengths, json]);
  return Buffer.concat([head, padding(head.length), ...parts]);
}

/** Splits an object into its header and the sections behind it. Throws CorruptObjectError. */
export function openSections<Header>(
  key: string,
  stored: Buffer,
  magic: Buffer,
  schema: z.ZodType<Header>,
): { header: Header; body: Buffer } {
  const headerStart = magic.length + 8;
  if (stored.length < headerStart || !stored.subarray(0, magic.length).equals(magic)) {
    throw new CorruptObjectError(key, `it does not begin with ${JSON.stringify(magic.toString().trim())}`);
  }
  requireEncoding(key, stored.readUInt32LE(magic.length + 4));
  const headerBytes = stored.readUInt32LE(magic.length);
  if (headerBytes > maxHeaderBytes)
    throw new CorruptObjectError(key, `its header has ${headerBytes} bytes, more than ${maxHeaderBytes}`);
  const headerEnd = headerStart + headerBytes;
  const header = parseObject(key, stored.subarray(headerStart, headerEnd), schema);
  const body = stored.subarray(headerEnd + padding(headerEnd).length);
  return { header, body };
}

/** Finds a section. Throws CorruptObjectError when it is missing, cut off, or does not have the expected size. */
export type SectionLookup = (name: string, expectedBytes?: number) => [offset: number, bytes: number];

/** Looks into the first `limit` bytes behind a header. */
export function sectionLookup(
  key: string,
  { sections }: { sections: SectionTable },
  limit: number,
): SectionLookup {
  return (name, expectedBytes) => {
    const [offset, bytes] = sections[name] ?? [0, Number.POSITIVE_INFINITY];
    const sized = expectedBytes === undefined || bytes === expectedBytes;
    if (!sized || offset % alignment !== 0 || offset + bytes > limit)
      throw new CorruptObjectError(key, `its section ${name} is missing or cut`);
    return [offset, bytes];
  };
}

/** A section of uint32. */
export function uint32s(buffer: ArrayBuffer, [offset, bytes]: [number, number]): Uint32Array {
  return new Uint32Array(buffer, offset, bytes / 4);
}

import { formatVersion } from "../../schemas/versions.ts";
import { bytesOf, maxHeaderBytes, textOf } from "../format/bytes.ts";
import { CorruptObjectError, requireEncoding } from "../store/errors.ts";
import { JsonValue, parseJson, unknownVersion, versionIn } from "../store/json.ts";

// Objects of a magic, a JSON header, and sections of numbers or bytes (snapshots/SPEC.md, "Segments").

const alignment = 8;

/** By name. The offset counts from the end of the header. */
type SectionTable = Record<string, [offset: number, bytes: number]>;

/** Zeros that follow this many bytes. */
export const padding = (length: number) => (alignment - (length % alignment)) % alignment;

export type SectionData = Uint8Array | Uint16Array | Uint32Array;

/** Puts an object together. The header gets the table of sections, each of which is padded to the alignment. */
export function encodeSections(
  magic: string,
  header: object,
  sections: readonly (readonly [name: string, data: SectionData])[],
): Uint8Array<ArrayBuffer> {
  const table: SectionTable = {};
  let end = 0;
  for (const [name, { byteLength }] of sections) {
    table[name] = [end, byteLength];
    end += byteLength + padding(byteLength);
  }
  const json = bytesOf(JSON.stringify({ ...header, sections: table }));
  const headerStart = magic.length + 8;
  const start = headerStart + json.length + padding(headerStart + json.length);
  const object = new Uint8Array(start + end);
  object.set(bytesOf(magic));
  new DataView(object.buffer).setUint32(magic.length, json.length, true);
  object.set(json, headerStart);
  for (const [name, { buffer, byteOffset, byteLength }] of sections)
    object.set(new Uint8Array(buffer, byteOffset, byteLength), start + table[name]![0]);
  return object;
}

/**
 * Returns the header, the table of sections, the bytes from the first one on, and views of sections in these. Throws
 * FormatError for an unknown version of the format.
 */
export function openSections<Bytes extends Uint8Array>(
  key: string,
  stored: Bytes,
  magic: string,
): { header: JsonValue; sections: SectionTable; body: Bytes; section: Sections<Bytes> } {
  const headerStart = magic.length + 8;
  if (stored.length < headerStart || textOf(stored.subarray(0, magic.length)) !== magic) {
    throw new CorruptObjectError(key, `it does not begin with ${JSON.stringify(magic.trim())}`);
  }
  const lengths = new DataView(stored.buffer, stored.byteOffset + magic.length, 8);
  requireEncoding(key, lengths.getUint32(4, true));
  const headerBytes = lengths.getUint32(0, true);
  if (headerBytes > maxHeaderBytes)
    throw new CorruptObjectError(key, `its header has ${headerBytes} bytes, more than ${maxHeaderBytes}`);
  const headerEnd = headerStart + headerBytes;
  const value = parseJson(key, stored.subarray(headerStart, headerEnd));
  if (versionIn(value) !== formatVersion) throw unknownVersion(key, versionIn(value));
  const header = new JsonValue(key, value);
  const places = header.member("sections").members();
  const sections: SectionTable = Object.fromEntries(places.map(([name, place]) => [name, place.pair()]));
  const body = stored.subarray(headerEnd + padding(headerEnd)) as Bytes;
  return { header, sections, body, section: sectionViews(key, sections, body) };
}

export type Sections<Bytes extends Uint8Array> = (name: string, expectedBytes?: number) => Bytes;

export function sectionViews<Bytes extends Uint8Array>(
  key: string,
  sections: SectionTable,
  body: Bytes,
): Sections<Bytes> {
  return (name, expectedBytes) => {
    // A header may name a section `constructor`, which every object has as a member.
    const place = Object.hasOwn(sections, name) ? sections[name] : undefined;
    const [offset, bytes] = place ?? [0, Number.POSITIVE_INFINITY];
    const sized = expectedBytes === undefined || bytes === expectedBytes;
    if (!sized || offset % alignment !== 0 || offset + bytes > body.length)
      throw new CorruptObjectError(key, `its section ${name} is missing or cut`);
    return body.subarray(offset, offset + bytes) as Bytes;
  };
}

/** `bytes` begin at a multiple of 4 in their buffer. */
export const uint32s = ({ buffer, byteOffset, length }: Uint8Array) =>
  new Uint32Array(buffer, byteOffset, length / 4);

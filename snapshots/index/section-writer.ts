import { padding, type SectionData } from "./sections.ts";

/** Pads each section to the alignment. */
export class SectionWriter {
  readonly sections: Record<string, [offset: number, bytes: number]> = {};
  readonly parts: Buffer[] = [];
  bytes = 0;

  add(name: string, data: SectionData): void {
    const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
    const filler = Buffer.alloc(padding(bytes.length));
    this.sections[name] = [this.bytes, bytes.length];
    this.parts.push(bytes, filler);
    this.bytes += bytes.length + filler.length;
  }
}

/** Puts an object together. `parts` are the padded sections. */
export function sealSections(magic: string, header: object, parts: readonly Buffer[]): Buffer {
  const json = Buffer.from(JSON.stringify(header));
  const lengths = Buffer.alloc(8);
  lengths.writeUInt32LE(json.length, 0);
  const head = Buffer.concat([Buffer.from(magic), lengths, json]);
  return Buffer.concat([head, Buffer.alloc(padding(head.length)), ...parts]);
}

import { readFileSync } from "node:fs";
import { constants, crc32, deflateSync } from "node:zlib";
import { nameOf } from "../../schemas/names.ts";
import { protocolDimensionKeys } from "../../schemas/protocol.ts";
import type { ProtocolScore } from "../../schemas/records.ts";
import { forgeTiers } from "../../schemas/versions.ts";
import { layout, sha256 } from "../store/layout.ts";
import { badgeColours } from "./badge.ts";
import { siteName } from "./dataset.ts";

// The picture that messengers and social networks show beside a link to a protocol's page. It has only a few rectangles
// and words, so it is drawn here: an SVG renderer would take some megabytes and still need a font. The only foreign
// text in it is the slug, whose letters the font has.

/** Raise this when cards look different, so that all are drawn again. */
const version = 1;

/** `record` is the hash of the record: another record has another card. */
export const cardKey = (slug: string, record: string) =>
  layout.card(`${slug}-${sha256(`${version} ${record}`).slice(0, 16)}`);

/** Pixels. */
export const cardSize = { width: 1200, height: 630 };

/** A PNG, the same bytes for the same record. Takes some milliseconds. */
export function drawCard(record: ProtocolScore): Buffer {
  const { slug, bri, forgeScale, forgeScaleNum, confidence, updatedAt, dimensions } = record;
  const picture = new Picture();
  const [ink, soft, line] = ["#1b1d1f", "#5f6468", "#e6e7e8"].map((colour) => picture.pen(colour));
  const tier = picture.pen(badgeColours[forgeScale]);
  const [left, right] = [80, 1120];
  picture.box(tier, 0, 0, 24, cardSize.height);
  picture.text(soft!, siteName, left, 88, 36);
  const name = fitting(nameOf(slug), 44, right - left);
  picture.text(ink!, name, left, 186, Math.min(88, (44 * (right - left)) / widthOf(name, 44)));
  picture.text(ink!, `${bri}`, left, 372, 190);
  const beside = left + widthOf(`${bri}`, 190) + 28;
  picture.text(soft!, "of 1,000, higher is safer", beside, 372, 36);
  picture.text(tier, forgeScale, beside, 306, 64);
  for (let step = 0; step < forgeTiers.length; step += 1)
    picture.box(step < forgeScaleNum ? tier : line!, right - (forgeTiers.length - step) * 34, 72, 30, 16);
  picture.box(line!, left, 404, right - left, 18);
  picture.box(tier, left, 404, ((right - left) * bri) / 1000, 18);
  const [slot, bottom] = [(right - left + 16) / protocolDimensionKeys.length, 556];
  for (const [index, key] of protocolDimensionKeys.entries()) {
    const x = Math.round(left + index * slot);
    picture.box(line!, x, bottom, slot - 16, 4);
    picture.box(tier, x, bottom - dimensions[key], slot - 16, dimensions[key]);
  }
  const date = updatedAt.slice(0, 10);
  picture.text(soft!, `Twelve dimensions. Confidence ${confidence} of 100.`, left, 598, 28);
  picture.text(soft!, date, right - widthOf(date, 28), 598, 28);
  return picture.png();
}

function fitting(text: string, size: number, width: number): string {
  if (widthOf(text, size) <= width) return text;
  let start = text;
  while (widthOf(`${start}...`, size) > width) start = start.slice(0, -1);
  return `${start}...`;
}

interface Glyph {
  width: number;
  /** Outlines as straight lines. Coordinates are fractions of the font size, upwards from the base line. */
  lines: readonly (readonly [x0: number, y0: number, x1: number, y1: number])[];
}

const unitsPerEm = 500;
/** Lines that stand for a curve. */
const pieces = 6;

let glyphs: ReadonlyMap<string, Glyph> | undefined;

function glyphOf(character: string): Glyph {
  glyphs ??= new Map(
    String(readFileSync(new URL("glyphs.txt", import.meta.url)))
      .trimEnd()
      .split("\n")
      .slice(1)
      .map((line) => [line[0]!, parseGlyph(line.slice(1))]),
  );
  const glyph = glyphs.get(character);
  if (!glyph) throw new Error(`the font of cards lacks ${JSON.stringify(character)}`);
  return glyph;
}

function parseGlyph(text: string): Glyph {
  const [, width, outline = ""] = /^(\d+) (.*)$/.exec(text) ?? [];
  const lines: [number, number, number, number][] = [];
  let [x, y, startX, startY] = [0, 0, 0, 0];
  const to = (nextX: number, nextY: number) => {
    lines.push([x, y, nextX, nextY]);
    [x, y] = [nextX, nextY];
  };
  for (const [, command, numbers = ""] of outline.matchAll(/([MLQ])([^MLQ]*)/g)) {
    const [a = 0, b = 0, c = 0, d = 0] = numbers.split(" ").map((number) => Number(number) / unitsPerEm);
    if (command === "L") to(a, b);
    if (command === "M") {
      to(startX, startY);
      [x, y, startX, startY] = [a, b, a, b];
    }
    if (command !== "Q") continue;
    const [fromX, fromY] = [x, y];
    for (let piece = 1; piece <= pieces; piece += 1) {
      const t = piece / pieces;
      const along = (from: number, by: number, end: number) =>
        (1 - t) ** 2 * from + 2 * t * (1 - t) * by + t ** 2 * end;
      to(along(fromX, a, c), along(fromY, b, d));
    }
  }
  to(startX, startY);
  return { width: Number(width) / unitsPerEm, lines };
}

const widthOf = (text: string, size: number) =>
  [...text].reduce((sum, character) => sum + glyphOf(character).width * size, 0);

/** Steps between paper and a colour, for the edges of letters. */
const shades = 15;

class Picture {
  readonly #palette: number[] = [];
  /** Indexes into the palette, row by row. */
  readonly #pixels = new Uint8Array(cardSize.width * cardSize.height);

  /** Adds a colour such as `#1b1d1f` and its shades. Returns the index of the first shade, which is paper. */
  pen(colour: string): number {
    const first = this.#palette.length / 3;
    const channels = (hex: string) => [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16));
    const [paper, full] = [channels("#fdfdfc"), channels(colour)];
    for (let shade = 0; shade <= shades; shade += 1)
      for (const [index, from] of paper.entries())
        this.#palette.push(Math.round(from + ((full[index]! - from) * shade) / shades));
    return first;
  }

  box(pen: number, x: number, y: number, width: number, height: number): void {
    const [from, to] = [Math.round(x), Math.round(x + width)];
    for (let row = Math.round(y); row < Math.round(y + height); row += 1)
      this.#pixels.fill(pen + shades, row * cardSize.width + from, row * cardSize.width + to);
  }

  /** `y` is the base line. */
  text(pen: number, text: string, x: number, y: number, size: number): void {
    for (const character of text) {
      const glyph = glyphOf(character);
      this.#fill(pen, glyph.lines, x, y, size);
      x += glyph.width * size;
    }
  }

  /** Fills the outline. The share of a pixel that is inside decides its shade. */
  #fill(pen: number, lines: Glyph["lines"], x: number, y: number, size: number): void {
    // No letter of the font goes beyond this.
    const [left, top] = [Math.floor(x - 0.12 * size), Math.floor(y - 0.75 * size)];
    const [width, height] = [Math.ceil(0.9 * size) + 3, Math.ceil(size) + 1];
    // What each line adds to the area of all pixels to its right in its row.
    const added = new Float64Array(width * height);
    for (const [x0, y0, x1, y1] of lines)
      addLine(
        added,
        width,
        x - left + x0 * size,
        y - top - y0 * size,
        x - left + x1 * size,
        y - top - y1 * size,
      );
    for (let row = 0; row < height; row += 1) {
      let area = 0;
      for (let at = row * width; at < (row + 1) * width; at += 1) {
        area += added[at]!;
        const shade = Math.round(Math.min(1, Math.abs(area)) * shades);
        if (shade > 0) this.#pixels[(top + row) * cardSize.width + left + at - row * width] = pen + shade;
      }
    }
  }

  png(): Buffer {
    const { width, height } = cardSize;
    const pixels = this.#pixels;
    const rows = new Uint8Array((width + 1) * height);
    for (let row = 0; row < height; row += 1) {
      // Filter 2: each row as the difference from the one above, which is mostly 0.
      rows[row * (width + 1)] = 2;
      const shift = row + 1;
      const first = row * width;
      for (let at = first; at < first + width; at += 1)
        rows[at + shift] = row > 0 ? pixels[at]! - pixels[at - width]! : pixels[at]!;
    }
    const header = Buffer.alloc(13);
    header.writeUInt32BE(width, 0);
    header.writeUInt32BE(height, 4);
    // Eight bits a pixel, with a palette.
    header.set([8, 3], 8);
    // Every build of zlib finds runs alike, so the bytes are the same everywhere.
    const packed = deflateSync(rows, { level: 9, memLevel: 9, strategy: constants.Z_RLE });
    const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
    const palette = Buffer.from(this.#palette);
    return Buffer.concat([
      signature,
      chunk("IHDR", header),
      chunk("PLTE", palette),
      chunk("IDAT", packed),
      chunk("IEND"),
    ]);
  }
}

/** Adds, row by row, the area between a line and the right edge; lines upwards subtract theirs. */
function addLine(added: Float64Array, width: number, x0: number, y0: number, x1: number, y1: number): void {
  if (y0 === y1) return;
  const direction = y0 < y1 ? 1 : -1;
  const slope = (x1 - x0) / (y1 - y0);
  const end = Math.max(y0, y1);
  const begin = Math.min(y0, y1);
  for (let row = Math.floor(begin); row < end; row += 1) {
    const from = Math.max(row, begin);
    const to = Math.min(row + 1, end);
    const rise = direction * (to - from);
    const one = x0 + slope * (from - y0);
    const other = x0 + slope * (to - y0);
    const low = Math.min(one, other);
    const high = Math.max(one, other);
    let before = 0;
    for (let column = Math.floor(low); column <= Math.floor(high); column += 1) {
      // How much of the line lies in this column, and how much of the column lies right of it.
      const enter = Math.max(low, column);
      const leave = Math.min(high, column + 1);
      const part = rise * (high > low ? (leave - enter) / (high - low) : 1);
      const within = 1 - ((enter + leave) / 2 - column);
      added[row * width + column]! += part * within + before;
      before = part * (1 - within);
    }
    added[row * width + Math.floor(high) + 1]! += before;
  }
}

function chunk(name: string, content: Buffer = Buffer.alloc(0)): Buffer {
  const named = Buffer.concat([Buffer.from(name), content]);
  const [length, check] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(content.length);
  check.writeUInt32BE(crc32(named));
  return Buffer.concat([length, named, check]);
}

import type { ForgeTier } from "../../../../schemas/scales.ts";
import { tiers } from "../model/words.ts";

export interface Font {
  /** CSS pixels. */
  size: number;
  weight: number;
  family: string;
}

let measuring: CanvasRenderingContext2D | null | undefined;

/** In CSS pixels. */
export function lengthOf(text: string, { size, weight, family }: Font): number {
  measuring ??= document.createElement("canvas").getContext("2d");
  if (!measuring) throw new Error("This browser cannot measure text.");
  measuring.font = `${weight} ${size}px ${family}`;
  return measuring.measureText(text).width;
}

/** Text in lines that fit into a width. A word that is too long for a line, such as an address, is broken within. */
export function wrapped(text: string, font: Font, width: number): string[] {
  const lines: string[] = [];
  let rest = [...text];
  while (rest.length > 0) {
    const end = endOfLine(rest, (line) => lengthOf(line, font) <= width);
    lines.push(rest.slice(0, end).join(""));
    rest = rest.slice(rest[end] === " " ? end + 1 : end);
  }
  return lines;
}

/** Where the first line of some letters ends: before a space, if there is one. */
function endOfLine(letters: readonly string[], fits: (line: string) => boolean): number {
  if (fits(letters.join(""))) return letters.length;
  let [enough, many] = [1, letters.length];
  while (many - enough > 1) {
    const middle = Math.floor((enough + many) / 2);
    if (fits(letters.slice(0, middle).join(""))) enough = middle;
    else many = middle;
  }
  const space = letters.lastIndexOf(" ", enough);
  return space > 0 ? space : enough;
}

/** The range of the scores that have a tier. */
export interface Band {
  name: ForgeTier;
  /** From 1 to 7. */
  number: number;
  from: number;
  to: number;
}

/**
 * The bands of the tiers, lowest first, from the scores that have them: the service publishes tiers, not their borders.
 * A score between two bands may be of either tier. Undefined when scores of one tier lie among those of another, as
 * after a change of the formula.
 */
export function tierBands(
  scores: readonly { bri: number; forgeScale: string }[],
): readonly Band[] | undefined {
  const bands = tiers.flatMap((name, index) => {
    const own = scores.filter(({ forgeScale }) => forgeScale === name).map(({ bri }) => bri);
    return own.length > 0 ? [{ name, number: index + 1, from: Math.min(...own), to: Math.max(...own) }] : [];
  });
  return bands.every(({ from }, index) => from > (bands[index - 1]?.to ?? -1)) ? bands : undefined;
}

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

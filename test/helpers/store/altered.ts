import type { Draw } from "./drawing.ts";

/** A text with one character replaced by another of its own, left out or written twice, or with its end cut off. */
export function alteredText(text: string, draw: Draw): string {
  const at = draw(text.length);
  const [before, own = "", after] = [text.slice(0, at), text[at], text.slice(at + 1)];
  const other = text[draw(text.length)]!;
  return [before + other + after, before + other + after, before + after, before + own + own + after, before][
    draw(5)
  ]!;
}

/** As many bytes, of which a bit, a run or all are others. */
export function alteredBytes(bytes: Uint8Array, draw: Draw): Buffer<ArrayBuffer> {
  const altered = Buffer.from(bytes);
  if (bytes.length === 0) return altered;
  const [at, from] = [draw(bytes.length), draw(bytes.length)];
  const kind = draw(5);
  if (kind < 2) altered[at]! ^= 1 << draw(8);
  else if (kind === 2) altered.subarray(at, at + 1 + draw(32)).fill([0, 127, 128, 255][draw(4)]!);
  else if (kind === 3) altered.copyWithin(at, from, from + 1 + draw(4096));
  else return Buffer.concat([altered.subarray(at), altered.subarray(0, at)]);
  return altered;
}

interface Place {
  holder: { [name: string]: unknown };
  name: string;
}

/** Where the values in a JSON document are. */
function placesIn(value: unknown): Place[] {
  if (typeof value !== "object" || value === null) return [];
  const holder = value as Place["holder"];
  return Object.keys(holder).flatMap((name) => [{ holder, name }, ...placesIn(holder[name])]);
}

/** Alters one text, number or list of a JSON document, and leaves the types of its members as they are. */
export function alter(document: object, draw: Draw): void {
  const places = placesIn(document);
  const { holder, name } = places[draw(places.length)]!;
  const value = holder[name];
  if (typeof value === "number") holder[name] = value + [-2, -1, 1, 2][draw(4)]!;
  else if (typeof value === "string" && draw(4) > 0) holder[name] = alteredText(value, draw);
  else if (typeof value === "string") {
    const texts = places.map((place) => place.holder[place.name]).filter((one) => typeof one === "string");
    holder[name] = texts[draw(texts.length)];
  } else if (Array.isArray(value)) {
    const [one, other] = [draw(value.length + 1), draw(value.length + 1)];
    value.splice(one, draw(2), ...value.slice(other, other + 1));
  }
}

// The upper case of these leads to another letter, or is several.
const exceptions = new Map([
  ["\u0131", "\u0131"],
  ["\u1fd3", "\u0390"],
  ["\u1fe3", "\u03b0"],
  ["\ufb05", "\ufb06"],
]);

/**
 * The text with every character replaced by one that stands for it in any letter case: two texts are equal under Unicode
 * simple case folding, as the RegExp flags `iu` compare, exactly when this makes the same of both.
 */
export function foldCase(text: string): string {
  let folded = "";
  for (const character of text) folded += foldCharacter(character);
  return folded;
}

function foldCharacter(character: string): string {
  const exception = exceptions.get(character);
  if (exception !== undefined) return exception;
  const upper = alone(character.toUpperCase(), character);
  return alone(upper.toLowerCase(), upper);
}

/** What a character becomes, unless that is several. */
function alone(changed: string, character: string): string {
  return changed.length > 1 && changed.length > String.fromCodePoint(changed.codePointAt(0)!).length
    ? character
    : changed;
}

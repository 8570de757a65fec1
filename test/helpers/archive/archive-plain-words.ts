/** A word asked for, and whether it is the beginning of words. */
interface AskedWord {
  text: string;
  prefix: boolean;
}

/**
 * The words of a text, each once, in the words of INTERFACE 4.5: an oracle that looks at one character after another.
 * With `stars` a star ends a word and belongs to it.
 */
function cut(text: string, stars: boolean): Set<string> {
  const words = new Set<string>();
  let word = "";
  for (const character of [...text.normalize("NFKC").toLowerCase(), " "]) {
    if (/^(?:\p{Letter}|\p{Mark}|\p{Number})$/u.test(character)) word += character;
    else {
      if (word !== "") words.add(stars && character === "*" ? `${word}*` : word);
      word = "";
    }
  }
  return words;
}

export const plainWords = (question: string): Set<string> => cut(question, false);

export const askedWords = (q: string): AskedWord[] =>
  [...cut(q, true)].map((word) => ({ text: word.replace("*", ""), prefix: word.endsWith("*") }));

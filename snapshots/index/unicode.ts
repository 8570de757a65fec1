/** Decides what is a letter and how texts are normalised: words of another version may differ. */
export const unicodeVersion = process.versions.unicode ?? "none";

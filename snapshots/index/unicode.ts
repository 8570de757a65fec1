/** The version of Unicode by which this process tells letters and normalises. Words of another one may differ. */
export const unicodeVersion = process.versions.unicode ?? "none";

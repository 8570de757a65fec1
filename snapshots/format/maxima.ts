// Bounds of what is read outside Node too (snapshots/SPEC.md, "Maxima"). layout.ts in store/ has the others.

/** Bytes of a JSON header of a segment, of its index or of words. */
export const maxHeaderBytes = 2 ** 20;
/** Bytes of a words object. */
export const maxWordsBytes = 256 * 2 ** 20;

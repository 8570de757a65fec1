// Bounds that readers outside Node need too (snapshots/SPEC.md, "Maxima"). store/layout.ts has the others.

/** The most bytes of the JSON header of a segment, an index or words. */
export const maxHeaderBytes = 2 ** 20;
/** The most bytes of an object that a reader takes whole. */
export const maxObjectBytes = 256 * 2 ** 20;

/** A chunk of ids is small, because what shows that an id is absent is one of them. */
const [chunkBytes, idChunkBytes] = [4096, 256];

/** Bytes of a chunk of a section; the last one may have fewer (snapshots/SPEC.md, "Index root"). */
export const chunkBytesOf = (name: string): number => (name === "ids" ? idChunkBytes : chunkBytes);

/** The chunks of a section, or of the ids object as the section `ids`, whose hashes are the leaves of its tree. */
export function chunksOf(name: string, section: Uint8Array): Uint8Array[] {
  const size = chunkBytesOf(name);
  return Array.from({ length: Math.ceil(section.length / size) }, (_, chunk) =>
    section.subarray(chunk * size, (chunk + 1) * size),
  );
}

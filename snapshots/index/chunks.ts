/** A chunk of ids is small, because a proof that an id is absent holds one of them. */
const [chunkBytes, idChunkBytes] = [4096, 256];

/** The last chunk of a section may have fewer bytes (snapshots/SPEC.md, "Index root"). */
export const chunkBytesOf = (name: string): number => (name === "ids" ? idChunkBytes : chunkBytes);

/** The hashes of chunks are the leaves of a section's tree. The ids object counts as the section `ids`. */
export function chunksOf(name: string, section: Uint8Array): Uint8Array[] {
  const size = chunkBytesOf(name);
  return Array.from({ length: Math.ceil(section.length / size) }, (_, chunk) =>
    section.subarray(chunk * size, (chunk + 1) * size),
  );
}

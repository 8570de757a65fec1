import type { MarketAbsence } from "../../../schemas/envelopes.ts";
import { bytesOf, chunkBytes, cuts, fromBase64, hashFrom, toHex } from "../../../snapshots/format/bytes.ts";
import { isOneOf, maxSegments } from "./archive.ts";
import type { Asker } from "./asker.ts";
import { archiveFrom, ownSha256, trees } from "./trees.ts";
import type { Entry } from "./types.ts";

/** What shows that an id is not in a segment. */
type Absent = MarketAbsence["segments"][number];
/** Another market with the same hash. */
type Other = MarketAbsence["others"][number];

/**
 * Checks that an answer shows an id not to be in an archive, if the archive's index is over the children that it gives:
 * one for each segment.
 */
export async function requireAbsent(
  asker: Asker,
  id: string,
  { segments: listed, others }: MarketAbsence,
  entry: Entry,
): Promise<Uint8Array[]> {
  const { need, checking } = asker;
  const right = Array.isArray(listed) && listed.length <= maxSegments && Array.isArray(others);
  need(right, "absence", "The answer lists no segments, or no other markets.");
  const wanted = await idHash(id);
  const children = await Promise.all(
    listed.map((segment, index) =>
      checking("absence", `The ids of segment ${index}`, () => {
        const same = others.filter((other) => other?.archive?.index === index).length;
        return childWithout(asker, wanted, segment, same);
      }),
    ),
  );
  const ids = await Promise.all(
    others.map((other) =>
      checking("absence", "A market with the same hash", () => otherId(asker, other, { entry, wanted })),
    ),
  );
  need(!ids.includes(id), "absence", `Market ${id} is in the archive.`);
  need(new Set(ids).size === ids.length, "absence", "A market with the same hash is named twice.");
  return children;
}

const idChunkBytes = chunkBytes.ids;

/** A segment's child of the index tree. Its ids must show that exactly `named` of them have the hash `wanted`. */
async function childWithout(
  { need: needs }: Asker,
  wanted: number,
  { markets, header, ids }: Absent,
  named: number,
): Promise<Uint8Array> {
  const { bytes, size, chunks } = ids;
  const need = (holds: unknown, detail = "They are malformed.") => needs(holds, "absence", detail);
  const own = hashFrom(header);
  need(
    own &&
      isOneOf(markets, cuts.segmentMax) &&
      bytes === 6 * markets &&
      size === Math.ceil(bytes / idChunkBytes),
  );
  need(Array.isArray(chunks) && isOneOf(chunks.length, size));
  /** What is known of the hashes, by position. */
  const hashes: Map<number, number> = new Map();
  const roots = await Promise.all(
    chunks.map(async ({ index, path, content }, place) => {
      const chunk = fromBase64(content);
      if (!chunk) return undefined;
      const after = place === 0 ? 0 : Number(chunks[place - 1]?.index) + 1;
      need(index >= after && chunk.length === Math.min(idChunkBytes, bytes - index * idChunkBytes));
      const view = new DataView(chunk.buffer);
      const first = (index * idChunkBytes) / 4;
      for (let at = 0; 4 * at + 3 < chunk.length && first + at < markets; at += 1)
        hashes.set(first + at, view.getUint32(4 * at, true));
      return trees.rootFrom("section", trees.leafHash(chunk), { index, size, path, markets: bytes });
    }),
  );
  const [root] = roots;
  need(roots.every(Boolean));
  need(
    roots.every((other) => toHex(other!) === toHex(root!)),
    "The chunks are not of one object.",
  );
  const below = Math.max(-1, ...[...hashes].flatMap(([at, hash]) => (hash < wanted ? at : [])));
  const above = Math.min(markets, ...[...hashes].flatMap(([at, hash]) => (hash > wanted ? at : [])));
  const between = above - below - 1;
  const same = [...hashes.values()].filter((hash) => hash === wanted).length;
  need(between === same, "The neighbours of the id are not shown.");
  need(same === named, `${same} markets have the same hash, and ${named} are named.`);
  return trees.nodeHash(own!, root!);
}

/** The id of another market with the same hash, which the archive has. */
async function otherId(
  { need }: Asker,
  { market, ...proof }: Other,
  { entry, wanted }: { entry: Entry; wanted: number },
): Promise<string> {
  const root = archiveFrom(market, proof);
  need(root && toHex(await root) === entry.archiveRoot, "absence", "It is not in the archive.");
  const { id } = JSON.parse(market);
  need((await idHash(id)) === wanted, "absence", `Market ${id} has another hash.`);
  return id;
}

/** The first 32 bits of an id's hash. */
async function idHash(id: string): Promise<number> {
  const hash = await ownSha256(bytesOf(id));
  return new DataView(hash.buffer, hash.byteOffset).getUint32(0);
}

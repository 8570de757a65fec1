import { generateKeyPairSync, hash, type KeyObject, sign } from "node:crypto";
import type { MarketProof } from "../../../schemas/envelopes.ts";
import { identityOf } from "../../../snapshots/format/hash-trees.ts";
import { auditPath, leafHash, pageRootOf, rootOver, treeHead } from "../../../snapshots/format/tree.ts";

/** A key as c2sp.org/signed-note has it. */
export interface NoteKey {
  privateKey: KeyObject;
  name: string;
  /** The first four bytes of the hash over name and public key. */
  id: Buffer;
  /** `NAME+ID+BASE64`. */
  text: string;
}

export function noteKey(name: string): NoteKey {
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  const raw = Buffer.concat([Buffer.of(1), publicKey.export({ format: "der", type: "spki" }).subarray(-32)]);
  const id = hash("sha256", Buffer.concat([Buffer.from(`${name}\n`), raw]), "buffer").subarray(0, 4);
  return { privateKey, name, id, text: `${name}+${id.toString("hex")}+${raw.toString("base64")}` };
}

/** A signature line of a note. */
export function signatureLine({ privateKey, name, id }: NoteKey, text: string): string {
  const bytes = Buffer.concat([id, sign(null, Buffer.from(text), privateKey)]);
  return `— ${name} ${bytes.toString("base64")}\n`;
}

/** A checkpoint of a log, signed by these keys. */
export function checkpointOf(leaves: readonly Buffer[], keys: readonly NoteKey[]): string {
  const text = `${keys[0]!.name}\n${leaves.length}\n${treeHead(leaves).toString("base64")}\n`;
  return `${text}\n${keys.map((key) => signatureLine(key, text)).join("")}`;
}

/** An answer whose entry is at its place in a log of this many commits that these keys signed. */
export function inLog(
  answer: MarketProof,
  keys: readonly NoteKey[],
  size = answer.commit + 5,
): MarketProof & { checkpoint: string } {
  const index = answer.commit - 1;
  const leaves = Array.from({ length: size }, (_, n) => leaf(n === index ? answer.entry : `entry ${n}`));
  const inclusion = auditPath(leaves, index).map((node) => node.toString("hex"));
  return { ...answer, checkpoint: checkpointOf(leaves, keys), proof: { ...answer.proof, inclusion } };
}

/** An archive of segments of pages of markets, as its trees see it. */
export type Shape = readonly (readonly (readonly string[])[])[];

/** The answer that proves a market of an archive of any shape, unsigned. */
export function proofIn(
  shape: Shape,
  [segment, page, market]: readonly [number, number, number],
): MarketProof {
  const pagesOf = (pages: Shape[number]) =>
    pages.map((lines) => ({ root: pageRootOf(lines.map(leaf)).toString("hex"), markets: lines.length }));
  const segments = shape.map((pages) => {
    const subtrees = pagesOf(pages);
    return { root: rootOver("segment", subtrees).toString("hex"), markets: pages.flat().length };
  });
  const level = (index: number, markets: number, hashes: readonly Buffer[]) => ({
    index,
    size: hashes.length,
    markets,
    path: auditPath(hashes, index).map((node) => node.toString("hex")),
  });
  const rootsOf = (subtrees: readonly { root: string }[]) =>
    subtrees.map(({ root }) => Buffer.from(root, "hex"));
  const lines = shape[segment]![page]!;
  const counts = { markets: shape.flat(2).length, protocols: 7 };
  const scoresRoot = hash("sha256", "scores");
  const publishedAt = "2026-02-02T08:21:59.229Z";
  const content = { feedVersion: "bri-pm-v1", counts, scoresRoot };
  const archiveRoot = rootOver("archive", segments).toString("hex");
  const snapshotId = hash("sha256", identityOf({ ...content, archiveRoot }));
  return {
    market: lines[market]!,
    snapshotId,
    commit: 12,
    entry: JSON.stringify({ commit: 12, publishedAt, ...content, archiveRoot, snapshotId }),
    checkpoint: null,
    proof: {
      page: level(market, lines.length, lines.map(leaf)),
      segment: level(page, segments[segment]!.markets, rootsOf(pagesOf(shape[segment]!))),
      archive: level(segment, counts.markets, rootsOf(segments)),
      inclusion: null,
    },
  };
}

const leaf = (text: string) => leafHash(Buffer.from(text));

/** Every text that differs from this one in one place, by another character or by none, at every `step`th place. */
export function* flipped(text: string, step = 1): Generator<string> {
  for (let at = 0; at < text.length; at += step) {
    const code = text.charCodeAt(at);
    for (const other of [String.fromCharCode(code ^ 1), String.fromCharCode(code ^ 32), ""])
      yield text.slice(0, at) + other + text.slice(at + 1);
  }
}

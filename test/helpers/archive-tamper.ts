import { Commit, Manifest, type SegmentRef } from "../../schemas/snapshot.ts";
import { layout } from "../../snapshots/layout.ts";
import { seal, sha256 } from "../../snapshots/seal.ts";

/** The content of a store by key. */
export type Objects = Map<string, Buffer>;

const parse = (bytes: Buffer | undefined): unknown => JSON.parse(String(bytes));

/** Changes the newest commit, and seals it again. */
export function replaceCommit(objects: Objects, changes: Partial<Commit>): string {
  const key = [...objects.keys()].filter((key) => key.startsWith(layout.commits)).sort().at(-1)!;
  const { digest: _, ...content } = Commit.parse(parse(objects.get(key)));
  objects.set(key, seal({ ...content, ...changes }));
  return key;
}

/** The newest manifest. */
export function newestManifest(objects: Objects): Manifest {
  const commits = [...objects.keys()].filter((key) => key.startsWith(layout.commits)).sort();
  const { manifest } = Commit.parse(parse(objects.get(commits.at(-1)!)));
  return Manifest.parse(parse(objects.get(layout.manifest(manifest.hash))));
}

/** Puts another manifest in the newest one's place, and makes the commit agree with it. Returns its key. */
export function replaceManifest(objects: Objects, changes: Partial<Manifest>): string {
  const manifest = { ...newestManifest(objects), ...changes };
  const bytes = Buffer.from(JSON.stringify(manifest));
  const hash = sha256(bytes);
  objects.set(layout.manifest(hash), bytes);
  const { snapshotId, counts } = manifest;
  replaceCommit(objects, { manifest: { hash, bytes: bytes.length }, snapshotId, counts });
  return layout.manifest(hash);
}

/** Puts another segment in the place of one of the newest snapshot, and makes all above agree. Returns its key. */
export function replaceSegment(
  objects: Objects,
  index: number,
  bytes: Buffer,
  changes: (segments: SegmentRef[]) => Partial<Manifest> = () => ({}),
): string {
  const hash = sha256(bytes);
  objects.set(layout.segment(hash), bytes);
  const { segments } = newestManifest(objects);
  segments[index] = { ...segments[index]!, hash, bytes: bytes.length };
  replaceManifest(objects, { segments, ...changes(segments) });
  return layout.segment(hash);
}

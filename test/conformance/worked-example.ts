import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import type { SegmentRef } from "../../schemas/store/stored-objects.ts";
import { formatVersion } from "../../schemas/versions.ts";
import { idOfLine } from "../../snapshots/format/market-line.ts";
import { type Page, readRun } from "../../snapshots/format/page.ts";
import { leafHash, nodeHash } from "../../snapshots/format/tree.ts";
import { readPages } from "../../snapshots/index/segment.ts";
import { layout, sha256 } from "../../snapshots/store/layout.ts";
import { readManifest } from "../../snapshots/store/manifest.ts";
import { memoryStorage } from "../helpers/store/storages.ts";

export const example = join(import.meta.dirname, `format-${formatVersion}`);
export const specification = join(import.meta.dirname, "../../snapshots/SPEC.md");

/** The files of a folder by name. */
export async function filesIn(place: string): Promise<Map<string, Buffer>> {
  const entries = await readdir(place, { recursive: true, withFileTypes: true });
  const names = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  const files = names
    .sort()
    .map(async (name) => [name.slice(place.length + 1), await readFile(name)] as const);
  return new Map(await Promise.all(files));
}

/** What the table of the worked example of the specification says, computed from the store. */
export async function workedExample(): Promise<[what: string, value: string][]> {
  const files = await filesIn(join(example, "store"));
  const json = (key: string) => JSON.parse(String(files.get(key)));
  const commit = json(layout.commit(4));
  const manifest = await readManifest(memoryStorage(files), commit);
  const [ref] = manifest.segments as [SegmentRef];
  const stored = files.get(layout.segment(ref.hash))!;
  const header = JSON.parse(stored.toString("utf8", 16, 16 + stored.readUInt32LE(8)));
  const start = Math.ceil((16 + stored.readUInt32LE(8)) / 8) * 8;
  const [page] = readPages("segment", stored) as [Page];
  const lines = page.runs.flatMap((_, run) => readRun("page", files.get(layout.page(page.hash))!, page, run));
  const oldest = lines.at(-1)!;
  const ids = files.get(layout.ids(ref.ids.hash))!;
  const id = idOfLine(oldest);
  const fromHex = (text: string) => Buffer.from(text, "hex");
  const [at, bytes] = header.sections["outcome.codes"];
  const runs = page.runs.map((run) => `${run.compressedBytes} and ${run.rawBytes}`).join(", ");
  return [
    ["the oldest market: id, CRC-32 of that, and `h`", `${id}, ${crc32(id)}, ${sha256(id).slice(0, 8)}`],
    ["its text as a leaf", leafHash(oldest).toString("hex")],
    ["its page: markets; compressed and raw bytes of the runs", `${page.markets}; ${runs}`],
    ["root of this page", page.root],
    ["its segment: markets and bytes", `${ref.markets} and ${ref.bytes}`],
    ["`outcome.codes` in it", `${bytes} bytes from byte ${start + at} on, where sections begin at ${start}`],
    [
      "first `h` of its ids, and its ordinal",
      `${ids.readUInt32LE(0).toString(16).padStart(8, "0")}, ${ids.readUInt16LE(4 * ref.markets)}`,
    ],
    ["root of this segment", ref.root],
    ["root of its ids", ref.ids.root],
    ["its index header: hash and bytes", `${ref.index.hash}, ${ref.index.bytes}`],
    [
      "its node in the tree of the index",
      nodeHash(fromHex(ref.index.hash), fromHex(ref.ids.root)).toString("hex"),
    ],
    ["root of the index", commit.entry.indexRoot],
    ["root of the archive, which has three segments", commit.entry.archiveRoot],
    ["root of the scores", commit.entry.scoresRoot],
    ["snapshot id", commit.entry.snapshotId],
  ];
}

/** The text of the specification with this table. */
export function withWorkedExample(text: string, table: Awaited<ReturnType<typeof workedExample>>): string {
  const rows = table.map(([what, value]) => `| ${what} | ${value} |\n`).join("");
  const place = /(<!-- example: [^>]*-->\n).*?(<!-- \/example -->)/s;
  return text.replace(place, (_, begin, end) => `${begin}| what | value |\n|---|---|\n${rows}${end}`);
}

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { maxProtocols, maxSegments } from "../../../schemas/store/snapshot.ts";
import { maxPageRunBytes } from "../../../snapshots/format/page.ts";
import { createLabelTables } from "../../../snapshots/index/columns.ts";
import { loadSegment } from "../../../snapshots/index/segment.ts";
import { ObjectWriter } from "../../../snapshots/publish/object-writer.ts";
import { Catalog } from "../../../snapshots/read/catalog/catalog.ts";
import { kindOf, layout, sha256 } from "../../../snapshots/store/layout.ts";
import { readObject } from "../../../snapshots/store/objects.ts";
import { publishRecords, scoreRows, sourcesOf } from "../../helpers/publish/records.ts";
import { countingStorage, memoryStorage } from "../../helpers/store/storages.ts";
import {
  goodStore,
  newestManifest,
  newestSegment,
  type Objects,
  replaceCommit,
  replaceManifest,
} from "../../helpers/store/tamper.ts";

const mebibyte = 2 ** 20;
const hash = "a".repeat(64);

/** What taking up the newest commit of a store ends with, and the keys that were read before an older one was tried. */
async function takingUp(objects: Objects): Promise<{ error: unknown; read: string[] }> {
  const storage = countingStorage(memoryStorage(objects));
  const error = await new Catalog(storage, { cacheBytes: mebibyte }).refresh().catch((thrown) => thrown);
  const read = storage.calls.map(({ key }) => key);
  const older = read.findLastIndex((key) => key.startsWith(layout.manifest.prefix));
  return { error, read: read.slice(0, older) };
}

describe("objects that match their hashes and are larger than any can be", () => {
  test("are not read: a manifest, and whatever a reference names", async () => {
    const objects = await goodStore();
    const bytes = 450 * mebibyte;
    replaceCommit(objects, { manifest: { hash, bytes } });
    const { error, read } = await takingUp(objects);
    const cause = { code: "CORRUPT_OBJECT", key: layout.manifest(hash) };
    expect(error).toMatchObject({ code: "CORRUPT_OBJECT", key: layout.commit(3), cause });
    expect(String(error)).toContain(`it has ${bytes} bytes, more than the ${16 * mebibyte} expected`);
    expect(read).not.toContain(layout.manifest(hash));

    const storage = countingStorage(memoryStorage(new Map()));
    const kinds = [
      [layout.publicObject(hash), 256],
      [layout.segmentList(hash), 16],
      [layout.scoreLines(hash), 16],
      [layout.privateObject(hash), 16],
      [layout.segment(hash), 256],
      [layout.rows(hash), 16],
      [layout.ids(hash), 16],
      [layout.origins(hash), 16],
      [layout.sourceFiles(hash), 256],
      [layout.words(hash), 256],
      [layout.page(hash), 256],
      [layout.changePart(hash), 256],
      [layout.changeRecord(hash), 16],
      [layout.exportChunks(hash), 16],
    ] as const;
    for (const [key, most] of kinds) {
      const ref = { hash, bytes: most * mebibyte + 1 };
      const told = `: it has ${ref.bytes} bytes, more than the ${most * mebibyte} expected`;
      await expect(readObject(storage, key, ref)).rejects.toThrow(told);
    }
    expect(storage.calls).toEqual([]);
    // Nor does a publisher write what readers refuse.
    const objectsOf = new ObjectWriter(storage, new Set(), false);
    const large = Buffer.alloc(16 * mebibyte + 1);
    await expect(objectsOf.write(layout.rows(sha256(large)), large)).rejects.toThrow(
      "more than the 16777216",
    );
    expect(storage.calls).toEqual([]);
  });

  test("are refused: too many segments, or protocols, before any of them is read", async () => {
    const objects = await goodStore();
    const { segments, scores } = newestManifest(objects);
    replaceManifest(objects, { segments: Array.from({ length: maxSegments + 1 }, () => segments[0]!) });
    const many = await takingUp(objects);
    expect(String(many.error)).toMatch(/manifests\/.*: it has more than 16384 segments/);
    expect(many.read.filter((key) => key.startsWith(layout.manifest.prefix))).toHaveLength(1);
    expect(many.read.filter((key) => key.startsWith(layout.segment.prefix))).toEqual([]);

    const refs = Object.fromEntries(
      Array.from({ length: maxProtocols + 1 }, (_, n) => [`p${n}`, scores.list]),
    );
    const other = await goodStore();
    replaceManifest(other, { scores: { ...scores, records: refs, histories: refs, dimensions: refs } });
    expect(String((await takingUp(other)).error)).toContain("it names too many protocols");
  });

  test("are refused: a run that would be inflated to a gigabyte, and a header of any size", async () => {
    const { bytes } = newestSegment(await goodStore());
    const headerBytes = bytes.readUInt32LE(8);
    const header = JSON.parse(bytes.toString("utf8", 16, 16 + headerBytes));
    const body = Math.ceil((16 + headerBytes) / 8) * 8;
    const load = (stored: Buffer) => loadSegment("segment", stored, createLabelTables());
    const { markets } = load(bytes);
    for (const rawBytes of [maxPageRunBytes + 1, 2 ** 30, 2 ** 32 - 1]) {
      const hostile = Buffer.from(bytes);
      hostile.writeUInt32LE(rawBytes, body + header.sections.runs[0] + 4);
      expect(() => load(hostile)).toThrow("segment: a page or a run of it is longer than one can be");
    }
    const withHeader = (changes: object) => {
      const json = Buffer.from(JSON.stringify({ ...header, ...changes }));
      const head = Buffer.concat([bytes.subarray(0, 16), json, Buffer.alloc(-json.length & 7)]);
      head.writeUInt32LE(json.length, 8);
      return Buffer.concat([head, bytes.subarray(body)]);
    };
    expect(load(withHeader({ later: "member" })).markets).toBe(markets);
    const room = mebibyte - JSON.stringify({ ...header, later: "" }).length;
    expect(load(withHeader({ later: "x".repeat(room) })).markets).toBe(markets);
    expect(() => load(withHeader({ later: "x".repeat(room + 1) }))).toThrow("its header has");
    const sections = { ...header.sections, runs: [4 * mebibyte - 8, 16] };
    expect(() => load(withHeader({ sections }))).toThrow("beyond 4194304");
  });
});

test("a publish refuses more protocols than a snapshot can have", async () => {
  const storage = memoryStorage(new Map());
  const [row] = scoreRows(700);
  const scores = async () =>
    Array.from({ length: maxProtocols + 1 }, (_, n) => ({
      ...row!,
      entry: { ...row!.entry, slug: `p${n}` },
    }));
  for (const [named, name] of [
    [["own.sql (protocol_scores)"], "own.sql (protocol_scores)"],
    [["protocol_scores/a.parquet", "protocol_scores/b.parquet"], "protocol_scores/"],
  ] as const) {
    const scoreFiles = named.map((name) => ({ name, hash: "", bytes: 0 }));
    const publishing = publishRecords(storage, [], 700, {
      sources: async () => ({ ...sourcesOf([], 700), scoreFiles, scores }),
    });
    await expect(publishing).rejects.toThrow(
      `${name}: would make 10001 protocols, more than the 10000 that a snapshot can have`,
    );
  }
});

test("the format states them", async () => {
  const read = (name: string) => readFile(join(import.meta.dirname, "../../../snapshots", name), "utf8");
  const [spec, publishing] = await Promise.all([read("SPEC.md"), read("PUBLISHING.md")]);
  for (const bytes of [maxPageRunBytes, maxSegments, maxProtocols])
    expect(spec).toContain(bytes.toLocaleString("en-US"));
  const told = ({ maxBytes }: { maxBytes: number }) =>
    maxBytes < mebibyte ? `${maxBytes / 1024} KiB` : `${maxBytes / mebibyte} MiB`;
  const { commit, publicObject, changePart, segment, words, page, ...others } = layout;
  for (const [name, kind] of Object.entries({
    ...{ commit, "score list": publicObject, "part of a change record": changePart },
    ...{ segment, words, page },
  }))
    expect(spec).toMatch(new RegExp(`^\\| [^|]*\\b${name}\\b[^|]* \\| ${told(kind)} \\|$`, "m"));
  expect(spec).toContain(`An object has at most ${told(others.manifest)},`);
  for (const kind of [
    others.segmentList,
    others.scoreLines,
    others.changeRecord,
    others.privateObject,
    others.ids,
  ])
    expect(told(kind)).toBe(told(others.manifest));
  const rows = [...publishing.matchAll(/^\| `([a-z]+\/[^`]*<[^`]*)`[^|]*\|[^|]*\| ?([^|]*?) ?\|$/gm)];
  expect(rows.length).toBeGreaterThan(8);
  for (const [, name, size] of rows) {
    const kind = kindOf(name!.replace(/<[^>]*>/g, "1"))!;
    const stated = { none: "Infinity MiB", "": told(others.manifest) }[size!] ?? size;
    expect([name, stated]).toEqual([name, told(kind)]);
  }
});

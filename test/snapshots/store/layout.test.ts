import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { maxListed, maxProtocols, maxSegments } from "../../../schemas/store/stored-objects.ts";
import { cuts, maxHeaderBytes } from "../../../snapshots/format/bytes.ts";
import { maxPageRunBytes } from "../../../snapshots/format/page.ts";
import { createLabelTables } from "../../../snapshots/index/index-reader.ts";
import { loadSegment } from "../../../snapshots/index/segment.ts";
import { objectWriter } from "../../../snapshots/publish/object-writer.ts";
import { Catalog } from "../../../snapshots/read/catalog/catalog.ts";
import {
  type Kind,
  kindOf,
  layout,
  maxOrdinaryBytes,
  maxResidentBytes,
  sha256,
} from "../../../snapshots/store/layout.ts";
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
    const { segment, sourceFiles, words, page, changePart } = layout;
    const { publicObject, privateObject, segmentList, scoreLines, rows, ids, origins } = layout;
    for (const [kinds, most] of [
      [[segment, sourceFiles, words, page, changePart], 256],
      [[publicObject, privateObject, segmentList, scoreLines, rows, ids, origins], 16],
      [[layout.changeRecord, layout.exportChunks], 16],
    ] as const)
      for (const keyOf of kinds) {
        const ref = { hash, bytes: most * mebibyte + 1 };
        const told = `: it has ${ref.bytes} bytes, more than the ${most * mebibyte} expected`;
        await expect(readObject(storage, keyOf(hash), ref)).rejects.toThrow(told);
      }
    expect(storage.calls).toEqual([]);
    // Nor does a publisher write what readers refuse.
    const objectsOf = objectWriter(storage);
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
  const scoreFiles = ["a", "b"].map((name) => ({
    name: `protocol_scores/${name}.parquet`,
    hash: "",
    bytes: 0,
  }));
  const sources = async () => ({ ...sourcesOf([], 700), scoreFiles, scores });
  await expect(publishRecords(storage, [], 700, { sources })).rejects.toThrow(
    "protocol_scores/: would make 10001 protocols, more than the 10000 that a snapshot can have",
  );
});

describe("the documents of the format", () => {
  const read = (name: string) => readFile(join(import.meta.dirname, `../../../snapshots/${name}.md`), "utf8");
  const units: Record<string, number> = { KiB: 1024, MiB: mebibyte };

  /** The most bytes that a cell tells. */
  function bytesIn(cell: string): number {
    if (cell.trim() === "none") return Number.POSITIVE_INFINITY;
    const [, number = "16", unit = "MiB"] = /([\d,]+) ?(\w*)/.exec(cell) ?? [];
    return Number(number.replaceAll(",", "")) * (units[unit] ?? 1);
  }

  /** The keys of a table, one of each kind, with the most bytes that the table tells. */
  async function keysIn(name: string): Promise<[key: string, most: number][]> {
    const [, section = ""] = (await read(name)).split("\n## Layout\n");
    const [table = ""] = section.split("\n\n").filter((part) => part.trim().startsWith("| key |"));
    const rows = table.split("\n").filter((row) => row.startsWith("| `"));
    return rows.flatMap((row) => {
      const [, keys = "", , bytes = ""] = row.split("|");
      const most = bytes.split(";").map(bytesIn);
      return [...keys.matchAll(/`([^`]+)`/g)].map(([, key], place): [string, number] => [
        key!.replace(/<\w+>/g, "1"),
        most.at(Math.min(place, most.length - 1))!,
      ]);
    });
  }

  test("tell all keys, and the most bytes of their objects", async () => {
    const kinds = Object.values<unknown>(layout).filter(
      (kind): kind is Kind => typeof kind === "function" && "prefix" in kind,
    );
    const told = [...(await keysIn("SPEC")), ...(await keysIn("PUBLISHING"))];
    // What the log signs and hashes has bounds of its own.
    const bounded = told.filter(([key]) => kindOf(key) && !key.startsWith(layout.log));
    expect(bounded).toEqual(bounded.map(([key]) => [key, kindOf(key)?.maxBytes]));
    const texts = (await read("SPEC")) + (await read("PUBLISHING"));
    expect(kinds.filter(({ prefix }) => !texts.includes(`\`${prefix}`))).toEqual([]);
    const large = kinds.filter(({ maxBytes }) => maxBytes > maxOrdinaryBytes);
    expect(large.filter((kind) => !bounded.some(([key]) => kindOf(key) === kind))).toEqual([]);
  });

  test("tell the other maxima", async () => {
    const [, section = ""] = (await read("SPEC")).split("\n## Maxima\n");
    for (const most of [cuts.segmentMax, cuts.pageMax, maxListed, maxPageRunBytes, maxSegments, maxProtocols])
      expect(section).toContain(most.toLocaleString("en-US"));
    for (const most of [maxHeaderBytes, maxResidentBytes])
      expect(section).toContain(`${most / mebibyte} MiB`);
  });
});

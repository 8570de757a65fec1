import { hash as hashOf, randomBytes } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { MarketIndex } from "../../../schemas/envelopes.ts";
import type { HistoricalMarket } from "../../../schemas/records.ts";
import { segmentEnds } from "../../helpers/archive/odd-markets.ts";
import { takenUp } from "../../helpers/http/live-feed.ts";
import { wantsRows } from "../../helpers/http/ndjson.ts";
import { startTestProxy, type TestProxy } from "../../helpers/http/proxy.ts";
import { bearer, type Call } from "../../helpers/http/proxy-client.ts";
import { market, publishRecords } from "../../helpers/publish/records.ts";
import { testKey } from "../../helpers/store/signing.ts";

const path = "/api/v1/markets/index";
const [perSegment, segments] = [100, 3];
const ends = [...segmentEnds().take(segments)];

/** Markets of several segments, because some ids end one. Those of the first have many words that no others have. */
const records = Array.from({ length: perSegment * segments }, (_, index): HistoricalMarket => {
  const words = index < perSegment ? randomBytes(1500).toString("hex").match(/.{12}/g)!.join(" ") : "";
  const last = index % perSegment === perSegment - 1;
  const id = last ? ends[Math.floor(index / perSegment)]! : market(index).id;
  return { ...market(index), id, question: `Will it ${index}? ${words}` };
});

// What a reader computes, from snapshots/SPEC.md alone.
const sha = (...parts: Uint8Array[]) => hashOf("sha256", Buffer.concat(parts), "buffer");
const hex = (bytes: Buffer) => bytes.toString("hex");
const leaf = (bytes: Uint8Array) => sha(Uint8Array.of(0), bytes);
const node = (left: Uint8Array, right: Uint8Array) => sha(Uint8Array.of(1), left, right);
function head(hashes: Buffer[]): Buffer {
  if (hashes.length < 2) return hashes[0] ?? sha();
  const split = 2 ** Math.ceil(Math.log2(hashes.length) - 1);
  return node(head(hashes.slice(0, split)), head(hashes.slice(split)));
}
function sealed(kind: number, total: number, children: Buffer[]): Buffer {
  const sizes = Buffer.alloc(17, kind);
  sizes.writeBigUInt64LE(BigInt(total), 1);
  sizes.writeBigUInt64LE(BigInt(children.length), 9);
  return sha(sizes, head(children));
}
const chunksOf = (bytes: Buffer, size: number) =>
  Array.from({ length: Math.ceil(bytes.length / size) }, (_, n) => bytes.subarray(n * size, (n + 1) * size));
const sectionRoot = (bytes: Buffer, size: number) =>
  hex(sealed(7, bytes.length, chunksOf(bytes, size).map(leaf)));

let proxy: TestProxy;
let key: string;
let ids: string[];
beforeAll(async () => {
  proxy = await startTestProxy({ empty: true, pollSeconds: 1 });
  const { storage } = proxy;
  const publish = async (rows: readonly HistoricalMarket[], day: string) => {
    const now = () => new Date(`2026-02-${day}T00:00:00.000Z`);
    const { snapshotId } = await publishRecords(storage, rows, 700, { now, signing: { key: testKey() } });
    return snapshotId;
  };
  ids = [
    await publish(records.slice(0, -40), "01"),
    await publish(records.slice(0, -20), "02"),
    await publish(records, "03"),
  ];
  key = await proxy.issue();
  await takenUp(proxy, ids[2]!);
});
afterAll(() => proxy?.stop());

const ask = (address: string, headers: Record<string, string> = {}, how: Call = {}, by = proxy) =>
  by.get(address, { ...how, headers: { ...bearer(key), ...headers } });
const indexOf = async (query = "") => MarketIndex.parse((await ask(`${path}${query}`)).json());
const partOf = async (hash: string): Promise<Buffer> => {
  const { status, body } = await ask(`${path}/${hash}`);
  expect([hash, status]).toEqual([hash, 200]);
  return body;
};

interface Header {
  markets: number;
  pages: number;
  root: string;
  sections: Record<string, [bytes: number, root: string]>;
  words: { hash: string; bytes: number };
}

test("the root of the index follows from what /index answers, under each snapshot", async () => {
  for (const snapshotId of ids) {
    const answer = await ask(`${path}?asOf=${snapshotId}`);
    const index = MarketIndex.parse(answer.json());
    const children = index.segments.map(({ header, ids }) =>
      node(Buffer.from(header.hash, "hex"), Buffer.from(ids.hash, "hex")),
    );
    const markets = index.segments.reduce((sum, segment) => sum + segment.markets, 0);
    const root = hex(sealed(6, markets, children));
    const entry = JSON.parse(index.entry);
    expect([index.indexRoot, entry.indexRoot]).toEqual([root, root]);
    expect([index.markets, entry.counts.markets]).toEqual([markets, markets]);
    expect([index.snapshotId, answer.headers["x-snapshot-id"]]).toEqual([snapshotId, snapshotId]);
    expect(index.checkpoint).toContain(testKey().name);
    expect(index.inclusion).not.toBeNull();
    expect(index.segments.length).toBe(segments);
  }
});

test("every part is there by its hash, alone and with others", async () => {
  const index = await indexOf();
  const rows = await ask("/api/v1/markets/historical", wantsRows);
  const lines = rows.text.trimEnd().split("\n").reverse();
  const parts: [hash: string, bytes: Buffer][] = [];
  const take = async (hash: string, bytes: number) => {
    const part = await partOf(hash);
    expect(part.length).toBe(bytes);
    parts.push([hash, part]);
    return part;
  };
  const takeChunks = async (section: Buffer, size: number) => {
    for (const chunk of chunksOf(section, size)) {
      const part = await take(hex(leaf(chunk)), chunk.length);
      expect(part.equals(chunk)).toBe(true);
    }
  };
  let first = 0;
  for (const segment of index.segments) {
    const text = await take(segment.header.hash, segment.header.bytes);
    expect(hex(sha(text))).toBe(segment.header.hash);
    const header: Header = JSON.parse(text.toString());
    const words = await take(header.words.hash, header.words.bytes);
    expect(hex(sha(words))).toBe(header.words.hash);
    for (const [name, [bytes, root]] of Object.entries(header.sections)) {
      const section = await take(root, bytes);
      expect([name, sectionRoot(section, 4096)]).toEqual([name, root]);
      await takeChunks(section, 4096);
      if (name !== "pageRoots") continue;
      for (const page of chunksOf(section, 32)) {
        const leaves = await partOf(hex(page));
        const texts = lines.slice(first, first + leaves.length / 32);
        expect(leaves.equals(Buffer.concat(texts.map((line) => leaf(Buffer.from(line)))))).toBe(true);
        expect(sealed(2, texts.length, chunksOf(leaves, 32)).equals(page)).toBe(true);
        first += texts.length;
        parts.push([hex(page), leaves]);
      }
    }
    const stored = await take(segment.ids.hash, segment.ids.bytes);
    expect(stored.length).toBe(6 * segment.markets);
    expect(sectionRoot(stored, 256)).toBe(segment.ids.hash);
    await takeChunks(stored, 256);
  }
  expect(first).toBe(records.length);
  // Chunks of several sections may be the same.
  const unlike = [...new Map(parts)];
  expect(unlike.length).toBeGreaterThan(100);
  for (let from = 0; from < unlike.length; from += 100) {
    const asked = unlike.slice(from, from + 100).toReversed();
    const { status, body } = await ask(`${path}/sections?of=${asked.map(([hash]) => hash).join()}`);
    expect(status).toBe(200);
    expect(body.equals(Buffer.concat(asked.map(([, bytes]) => bytes)))).toBe(true);
  }
});

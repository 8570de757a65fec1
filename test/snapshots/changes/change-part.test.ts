import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { ChangePart, encodeChangePart, putLine, rowOf } from "../../../snapshots/changes/record.ts";
import { compressPiece, headerWith, joinGzip, storedPiece } from "../../../snapshots/format/gzip.ts";
import { keyOfLine } from "../../../snapshots/format/market-line.ts";
import { runMarkets, runTable } from "../../../snapshots/format/page.ts";
import { leafHash } from "../../../snapshots/format/tree.ts";
import { recordsOf } from "../../helpers/publish/records.ts";

// Two whole runs and one of a single line.
const lines = recordsOf(0, 2 * runMarkets + 1).map((market) => Buffer.from(JSON.stringify(market)));
const markets = lines.map((line) => ({ ...keyOfLine(line), line }));
const stored = await encodeChangePart(markets);
// The table is behind 16 bytes of the header: 40 bytes for each line, then three numbers for each run.
const table = 16;
const runs = table + 40 * lines.length;
const end = runs + 3 * 12;

/** A part with the first market so many times. */
const repeated = (count: number) => encodeChangePart(Array(count).fill(markets[0]));
const partOf = (bytes: Buffer, count = lines.length) => new ChangePart("the part", bytes, count);

test("a part gives its markets, with their rows, run by run", () => {
  const part = partOf(stored);
  for (const [line, { id, resolvedAt }] of markets.entries()) {
    const row = part.row(line);
    expect(row.toString("hex", 0, 16)).toBe(id.replaceAll("-", ""));
    expect(row.subarray(16, 32)).toEqual(leafHash(lines[line]!).subarray(0, 16));
    expect(row.readBigUInt64LE(32)).toBe(BigInt(resolvedAt));
  }
  const each = [0, 1, 2].map((run) => part.markets(run));
  expect(each.map((run) => run.length)).toEqual([16, 16, 1]);
  expect(each.flat()).toEqual(lines);
  expect(part.checked()).toMatchObject(markets);
});

const timed = (resolvedAt: string) => Buffer.from(JSON.stringify({ ...recordsOf(0, 1)[0], resolvedAt }));

/** The part with another number at a place of its table. */
function withNumber(at: number, change: (number: number) => number): Buffer {
  const bytes = Buffer.from(stored);
  bytes.writeUInt32LE(change(bytes.readUInt32LE(at)), at);
  return bytes;
}

test("what does not begin with a table of as many lines as told is refused, and one with other runs", async () => {
  const zipped = gzipSync(Buffer.concat(lines.map(putLine)));
  for (const bytes of [Buffer.alloc(0), stored.subarray(0, end - 1), withNumber(0, (one) => one + 1), zipped])
    expect(() => partOf(bytes)).toThrow("does not begin with a table");
  for (const [bytes, count] of [
    [stored, lines.length + 1],
    [stored, lines.length - 1],
    [await repeated(513), 513],
  ] as const)
    expect(() => partOf(bytes, count)).toThrow("does not begin with a table");
  // A run that is longer, and one that inflates to too much.
  for (const bytes of [withNumber(runs, () => stored.length), withNumber(runs + 4, () => 4_194_673)])
    expect(() => partOf(bytes)).toThrow("its table of runs");
});

test("a part of as many lines as one has is read, and one with as long a run", async () => {
  expect(partOf(await repeated(512), 512).markets(31)).toHaveLength(16);
  expect(partOf(withNumber(runs + 4, () => 4_194_672)).markets(1)).toHaveLength(16);
});

test("a line that is not the one of the table is named", () => {
  for (const line of [0, 1, 2])
    for (const place of [0, 16, 32]) {
      const part = partOf(withNumber(table + line * 40 + place, (number) => (number ^ 1) >>> 0));
      expect(() => part.checked()).toThrow(`line ${line} is not the market of the table`);
    }
});

test("a byte that no line needs is missed when it is another, or too many", () => {
  for (const at of [end + 1, stored.length - 12, stored.length - 5, stored.length - 1]) {
    const bytes = Buffer.from(stored);
    bytes[at]! ^= 1;
    expect(() => partOf(bytes).checked(), String(at)).toThrow("not the gzip file of its lines");
  }
  const longer = Buffer.concat([stored, Buffer.alloc(1)]);
  expect(() => partOf(longer).checked()).toThrow("not the gzip file of its lines");
});

test.for<[what: string, text: string, fault: string]>([
  ["nothing", "", "as many lines"],
  ["a line too many", `${putLine(lines[0]!)}${putLine(lines[0]!)}`, "as many lines"],
  ["half a line", `{"op":"put","market":${lines[0]}}`, "ends within a line"],
  ["another bracket", `{"op":"put","market":${lines[0]}]\n`, "not the gzip file of its lines"],
  ["another operation", `{"op":"pat","market":${lines[0]}}\n`, "not the gzip file of its lines"],
  ["no market", "no market\n", "line 0 is not the market"],
  ["a market without a time", String(putLine(timed("never"))), "line 0 is not the market"],
  ["a market before 1970", String(putLine(timed("1969-12-31T23:59:59.999Z"))), "line 0 is not the market"],
])("a run of %s is refused", async ([, text, fault]) => {
  const { bytes, rawBytes, crc } = await compressPiece(Buffer.from(text), 6);
  const run = runTable([{ compressedBytes: bytes.length, rawBytes, crc }]);
  const header = headerWith(Buffer.concat([rowOf(markets[0]!), Buffer.from(run.buffer)]));
  const nothing = storedPiece(Buffer.alloc(0));
  const pieces = [nothing, { bytes, rawBytes, crc }, storedPiece(Buffer.alloc(0), true)];
  expect(() => partOf(joinGzip(pieces, header), 1).checked()).toThrow(fault);
});

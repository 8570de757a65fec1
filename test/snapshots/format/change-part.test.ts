import { expect, test } from "vitest";
import { ChangePart, encodeChangePart, putLine, runLines } from "../../../snapshots/format/change-part.ts";
import { compressPieceSync } from "../../../snapshots/format/gzip.ts";
import { keyOfLine } from "../../../snapshots/format/market-line.ts";
import { leafHash } from "../../../snapshots/format/tree.ts";
import { recordsOf } from "../../helpers/publish/records.ts";

// Two whole runs and one of a single line.
const lines = recordsOf(0, 2 * runLines + 1).map((market) => Buffer.from(JSON.stringify(market)));
const markets = lines.map((line) => ({ ...keyOfLine(line), line }));
const stored = await encodeChangePart(markets);
// Head, ids, leaf hashes and times come before the table of runs, which has three numbers for each.
const [ids, leaves] = [16, 16 + 16 * lines.length];
const times = leaves + 32 * lines.length;
const runTable = times + 8 * lines.length;

test("a part gives its markets, their leaf hashes and their lines, run by run", () => {
  const part = new ChangePart("the part", stored);
  expect(part.lines).toBe(lines.length);
  for (const [line, { id, resolvedAt }] of markets.entries()) {
    expect(part.market(line)).toEqual({ id, resolvedAt });
    expect(part.leaf(line)).toEqual(leafHash(lines[line]!));
  }
  const runs = [0, 1, 2].map((run) => part.runLines(run).map(String));
  expect(runs.map((run) => run.length)).toEqual([64, 64, 1]);
  expect(runs.flat()).toEqual(lines.map((line) => `{"op":"put","market":${line}}\n`));
  expect(part.checked().map(String)).toEqual(runs.flat());
});

/** The part with another number at a place of its head or its table of runs. */
function withNumber(at: number, change: (number: number) => number): Buffer {
  const bytes = Buffer.from(stored);
  bytes.writeUInt32LE(change(bytes.readUInt32LE(at)), at);
  return bytes;
}

test.for<[what: string, bytes: Buffer, fault: string]>([
  ["nothing", Buffer.alloc(0), "does not begin"],
  ["half a head", stored.subarray(0, 15), "does not begin"],
  ["another beginning", withNumber(0, (number) => number + 1), "does not begin"],
  ["a later encoding", withNumber(12, () => 1), "encoding 1"],
  ["no lines", await encodeChangePart([]), "its number of lines"],
  ["more lines than a part has", await encodeChangePart(Array(513).fill(markets[0])), "its number of lines"],
  ["a line more than there is room for", withNumber(8, () => 500), "its number of lines"],
  ["a run that is longer", withNumber(runTable, (bytes) => bytes + 1), "its table of runs"],
  [
    "a run that inflates to more than one can",
    withNumber(runTable + 4, () => 16_778_689),
    "its table of runs",
  ],
  ["a byte more", Buffer.concat([stored, Buffer.alloc(1)]), "its table of runs"],
])("%s is refused as a part", ([, bytes, fault]) => {
  expect(() => new ChangePart("the part", bytes)).toThrow(fault);
});

test("a part of as many lines as one has is read, and one with as long a run", async () => {
  expect(new ChangePart("the part", await encodeChangePart(Array(512).fill(markets[0]))).lines).toBe(512);
  expect(
    new ChangePart(
      "the part",
      withNumber(runTable + 4, () => 16_778_688),
    ).lines,
  ).toBe(129);
});

test("a line that is not the one of the table is named", () => {
  for (const [at, line] of [
    [ids, 0],
    [leaves + 32, 1],
    [times + 2 * 8, 2],
  ] as const) {
    const part = new ChangePart(
      "the part",
      withNumber(at, (number) => (number ^ 1) >>> 0),
    );
    expect(() => part.checked()).toThrow(`line ${line} is not the market of the table`);
  }
});

test.for<[what: string, text: string, fault: string]>([
  ["nothing", "", "as many lines"],
  ["a line too many", `${putLine(lines[0]!)}${putLine(lines[0]!)}`, "as many lines"],
  ["half a line", `{"op":"put","market":${lines[0]}}`, "ends within a line"],
  ["another bracket", `{"op":"put","market":${lines[0]}]\n`, "line 0 is not the market"],
  ["no market", "no market\n", "line 0 is not the market"],
])("a run of %s is refused", async ([, text, fault]) => {
  const { bytes, rawBytes, crc } = compressPieceSync(Buffer.from(text), 6);
  const table = Buffer.from(Uint32Array.of(bytes.length, rawBytes, crc).buffer);
  const whole = await encodeChangePart(markets.slice(0, 1));
  const part = new ChangePart("the part", Buffer.concat([whole.subarray(0, 16 + 56), table, bytes]));
  expect(() => part.checked()).toThrow(fault);
});

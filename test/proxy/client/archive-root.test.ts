import { hash } from "node:crypto";
import { crc32 } from "node:zlib";
import { describe, expect, test } from "vitest";
import { archiveRoot, linesFromEnd } from "../../../proxy/site/client/client.ts";
import { Cutter } from "../../../snapshots/format/bytes.ts";
import { leafHash, pageRootOf, rootOver, type Subtree } from "../../../snapshots/format/tree.ts";

/** The root by the publisher's own parts, all in memory. */
function oracle(texts: readonly string[]): string {
  const cutter = new Cutter();
  const segments: Subtree[] = [];
  let [pages, leaves]: [Subtree[], Buffer[]] = [[], []];
  const endPage = () => {
    if (leaves.length > 0) pages.push({ root: pageRootOf(leaves).toString("hex"), markets: leaves.length });
    leaves = [];
  };
  const endSegment = () => {
    const markets = pages.reduce((sum, page) => sum + page.markets, 0);
    if (markets > 0) segments.push({ root: rootOver("segment", pages).toString("hex"), markets });
    pages = [];
  };
  for (const text of texts) {
    leaves.push(leafHash(Buffer.from(text)));
    const ended = cutter.next(crc32(text.slice(7, 43)));
    if (ended !== "none") endPage();
    if (ended === "segment") endSegment();
  }
  endPage();
  endSegment();
  return rootOver("archive", segments).toString("hex");
}

const textOf = (id: number | string) => `{"id":"${String(id).padStart(36, "0")}","question":"Ünd?"}`;
const native = { sha256: (bytes: Uint8Array) => hash("sha256", bytes, "buffer") };

test("the root of a copy is the archive's, for any number of markets, also where pages and segments are cut at their largest", async () => {
  // Ids that end no page: pages of 512, and a segment that is full.
  const ids: string[] = [];
  for (let id = 0; ids.length < 70_000; id += 1) {
    const text = String(id).padStart(36, "0");
    if (endsNoPage(text)) ids.push(text);
  }
  const any = [0, 1, 31, 512, 3_977].map((count) => Array.from({ length: count }, (_, index) => index * 7));
  for (const texts of [...any, ids].map((each) => each.map(textOf)))
    expect(await archiveRoot(texts, native)).toEqual({ archiveRoot: oracle(texts), markets: texts.length });
});

const ordinary = crc32("00000000-0000-0000-0000-000000000001");
/** Whether a page of 511 markets does not end with this one. */
function endsNoPage(id: string): boolean {
  const cutter = new Cutter();
  for (let index = 0; index < 31; index += 1) cutter.next(ordinary);
  return cutter.next(crc32(id)) === "none";
}

// Of any lines and lengths: test/scripts/lines.test.ts.
describe("the lines of a file from its end", () => {
  const linesOf = async (text: string | Buffer) => {
    const lines: string[] = [];
    for await (const line of linesFromEnd(new Blob([text as string])))
      lines.push(Buffer.from(line).toString("latin1"));
    return lines;
  };

  test("where a piece begins or ends with a line", async () => {
    for (const length of [2 ** 20 - 2, 2 ** 20 - 1, 2 ** 20]) {
      const lines = ["first", "y".repeat(length - 1), "", "last"];
      expect(await linesOf(`${lines.join("\n")}\n`)).toEqual(lines.toReversed());
    }
  });

  test("are refused when the last one has no end, or one is too long", async () => {
    await expect(linesOf("a\nb")).rejects.toMatchObject({ code: "MISMATCH" });
    await expect(linesOf(`${"z".repeat(2 ** 20 + 2)}\n`)).rejects.toMatchObject({ code: "MISMATCH" });
  });
});

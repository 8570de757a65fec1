import fc from "fast-check";
import { expect, test } from "vitest";
import { type Market, marketMembers } from "../../../schemas/market.ts";
import { feedVersion } from "../../../schemas/versions.ts";
import {
  idOfLine,
  keyOfLine,
  memberOfLine,
  sharedText,
  textOf,
} from "../../../snapshots/format/market-line.ts";
import { recordsOf } from "../../helpers/publish/records.ts";

const [market] = recordsOf(0, 1) as [Market];
const hostile = fc.oneof(
  fc.string({ unit: "binary" }),
  fc.constantFrom("\\", '"', '\\"', ',"tier":"RAW"', '","category":"', "[", "{"),
);
const texts = fc.array(hostile, { maxLength: 6 }).map((parts) => parts.join(""));

test("reads each member of a market's text as JSON.parse does, whatever texts hold and whatever is between", () => {
  fc.assert(
    fc.property(texts, texts, texts, (question, topRiskDriver, added) => {
      const { dimensions, ...plain } = { ...market, question, topRiskDriver };
      // A member that this version does not know, in between and with any text.
      const record = Object.fromEntries(
        [...Object.entries(plain), ["dimensions", dimensions]].flatMap(([name, value]) =>
          name === "category"
            ? [
                ["added", added],
                [name, value],
              ]
            : [[name, value]],
        ),
      );
      const line = Buffer.from(JSON.stringify(record));
      for (const name of marketMembers.slice(1))
        expect(JSON.parse(String(memberOfLine(line, name)))).toEqual(record[name]);
      expect(textOf(line, "question")).toBe(question);
      expect(idOfLine(line)).toBe(market.id);
      expect(sharedText(feedVersion)(line)).toBe(JSON.stringify(marketMembers.map((name) => record[name])));
      expect(keyOfLine(line)).toEqual({ id: market.id, resolvedAt: Date.parse(market.resolvedAt) });
    }),
  );
});

test("gives nothing for a member that the market does not have, and no text for it", () => {
  const line = Buffer.from(JSON.stringify({ id: market.id, slug: "last" }));
  expect(memberOfLine(line, "question")).toBeUndefined();
  expect(String(memberOfLine(line, "slug"))).toBe('"last"');
  const object = Buffer.from(JSON.stringify({ id: market.id, slug: { a: 1, b: 2 } }));
  expect(String(memberOfLine(object, "slug"))).toBe('{"a":1,"b":2}');
  expect(() => textOf(line, "question")).toThrow(SyntaxError);
});

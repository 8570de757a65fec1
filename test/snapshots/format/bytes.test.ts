import fc from "fast-check";
import { expect, test } from "vitest";
import { compareBytes, writeText } from "../../../snapshots/format/bytes.ts";

const texts = fc.oneof(
  fc.string({ unit: "binary" }),
  fc.string({ unit: fc.constantFrom("a", "\x7f", "\x80") }),
);

test("a text is written in UTF-8 where it belongs, and nothing around it", () => {
  fc.assert(
    fc.property(texts, fc.nat(3), (text, start) => {
      const written = Buffer.from(text);
      const bytes = Buffer.alloc(start + written.length + 3, 0xee);
      expect(writeText(text, bytes, start)).toBe(start + written.length);
      const around = (length: number) => Buffer.alloc(length, 0xee);
      expect(bytes).toEqual(Buffer.concat([around(start), written, around(3)]));
    }),
  );
});

test("bytes are ordered by the first that differs, and a beginning comes before what it begins", () => {
  const bytes = fc.uint8Array({ max: 2, maxLength: 4 });
  fc.assert(
    fc.property(bytes, bytes, fc.nat(4), (a, b, most) => {
      const length = Math.min(a.length, most);
      const expected = Buffer.compare(a.subarray(0, length), b);
      expect(Math.sign(compareBytes(a, length, b))).toBe(expected);
    }),
  );
});

import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";

// The rooms that see keys.
const rooms = ["../../proxy/", "../../snapshots/keys/"].map((path) => new URL(path, import.meta.url));
const sources = rooms.flatMap((room) =>
  readdirSync(room, { recursive: true, encoding: "utf8" })
    // The client's keys are public, and its own.
    .filter((name) => name.endsWith(".ts") && !/^site\/(client|page)\//.test(name))
    .map((name): [string, string] => [
      name,
      readFileSync(new URL(name, room), "utf8").replace(/^\s*(\/\/|\*|\/\*).*$/gm, ""),
    ]),
);

// A comparison of a key's text, or a lookup by it, other than with nothing, which tells only whether there is one.
const secret = "(?:key|token|secret|presented)";
const searches = "get|has|includes|indexOf|startsWith|endsWith|localeCompare|compare|equals";
const comparison = new RegExp(
  [
    String.raw`\b${secret}s? *[!=]==?(?!=) *(?! |undefined\b|"")`,
    String.raw`[!=]==? *${secret}s?\b(?!\.|\()`,
    String.raw`(?<!storage|catalog\.objects)\.(?:${searches})\(${secret}[,)]`,
    String.raw`\[${secret}\]`,
  ].join("|"),
  "g",
);

// Only the sources are judged here. Timing was tried: Welch's t of 20,000 interleaved judgements of keys wrong at
// their first and at their last digit was between 10 and 200 as the code is, and about 1 with a comparison digit by
// digit put in on purpose. How the engine lays texts out weighs more than what is looked for; no bound says anything.
describe("a key as text", () => {
  test("is compared with nothing in the sources", () => {
    const found = sources.flatMap(([name, text]) =>
      [...text.matchAll(comparison)].map(([hit]) => `${name}: ${hit}`),
    );
    expect(found).toEqual([]);
  });

  test("is looked up by its SHA-256 only", () => {
    const uses = sources.flatMap(([, text]) => text.match(/.*\b(?:secretHash|bySecret)\b.*/g) ?? []);
    const digested =
      /secretHash: sha256\(key\)|bySecret\.get\(sha256\(key\)\)|\[record\.secretHash, record\]/;
    expect(uses.filter((line) => digested.test(line))).toHaveLength(3);
    // Signed addresses are compared by timingSafeEqual.
    const known = /let bySecret = new Map<string, KeyRecord>\(\)|addressQuery\(|createHmac\(/;
    const others = uses.filter((line) => !digested.test(line));
    expect(others.filter((line) => !known.test(line))).toEqual([]);
  });

  test.each([
    "if (key === record.key) return record;",
    "if (record.key !== key) continue;",
    "return token == secret;",
    "records.get(key)",
    "keys.includes(token)",
    "byKey[key]",
    "key.length",
    "key === undefined",
    'token === ""',
  ])("the search judges %s rightly", (line) => {
    expect(line.match(comparison) !== null).toBe(!/length|undefined|""/.test(line));
  });
});

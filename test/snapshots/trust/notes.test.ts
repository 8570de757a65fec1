import { describe, expect, test } from "vitest";
import {
  isKeyName,
  NoteError,
  NoteKeyError,
  parseNote,
  parseSignature,
} from "../../../snapshots/format/note.ts";
import { parseSigningKey, parseVerifierKey, verifierText } from "../../../snapshots/trust/notes/note-keys.ts";
import {
  openNote,
  parseCheckpoint,
  signatureLine,
  signCheckpoint,
  signNote,
  timeOf,
} from "../../../snapshots/trust/notes/signed-note.ts";
import { keyText, testKey } from "../../helpers/store/signing.ts";

// The key and note of the first implementation's documentation, golang.org/x/mod/sumdb/note.
const peter = {
  private: "PRIVATE+KEY+PeterNeumann+c74f20a3+AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz",
  public: "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
  text: "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n",
  signature: "x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=",
};
const peterNote = `${peter.text}\n— PeterNeumann ${peter.signature}\n`;
const enoch = testKey("EnochRoot");
const tree = { size: 20852163, head: Buffer.alloc(32, 0xab) };

// Altered ones are in test/conformance/foreign-verifiers.test.ts.
describe("a note", () => {
  test("is, byte for byte, the published example", () => {
    const key = parseSigningKey(peter.private);
    expect(verifierText(key)).toBe(peter.public);
    expect(signNote(peter.text, key)).toBe(peterNote);
    const opened = openNote(peterNote, [parseVerifierKey(peter.public)]);
    const signers = [expect.objectContaining({ name: "PeterNeumann" })];
    expect(opened).toMatchObject({ text: peter.text, signers, note: peterNote });
  });

  test("of two signers opens for either, and what nobody known signed is left out", () => {
    const other = signNote(peter.text, enoch).slice(peter.text.length + 1);
    const both = peterNote + other;
    const peterKey = parseVerifierKey(peter.public);
    expect(openNote(both, [peterKey])).toMatchObject({ signers: [peterKey], note: peterNote });
    expect(openNote(both, [enoch]).note).toBe(signNote(peter.text, enoch));
    expect(openNote(both, [enoch, peterKey]).note).toBe(both);
    expect(openNote(both + other + other, [enoch, peterKey]).note).toBe(both);
    expect(() => openNote(both, [testKey("EnochRoot", "another")])).toThrow(/no trusted key signed it/);
    expect(() => openNote(both, [])).toThrow(NoteError);
  });

  test("whose known signature is wrong is refused, although another one is right", () => {
    const wrong = signNote("another text\n", enoch).slice("another text\n\n".length);
    const keys = [parseVerifierKey(peter.public), enoch];
    expect(() => openNote(peterNote + wrong, keys)).toThrow(/signature of EnochRoot\+[0-9a-f]{8} is wrong/);
  });

  test("that only a key signed which this platform cannot check is refused, and the key named", () => {
    // As Node before 24.6 knows no key of ML-DSA-44.
    const quantum = { ...enoch, raw: new Uint8Array() };
    const both = peterNote + signNote(peter.text, enoch).slice(peter.text.length + 1);
    expect(() => openNote(both, [quantum])).toThrow(
      `no trusted key signed it, but EnochRoot+${enoch.id}, which this platform cannot check`,
    );
    expect(() => openNote(both, [])).toThrow(/but PeterNeumann\+c74f20a3$/);
  });

  test("that is malformed is refused", () => {
    const line = `— PeterNeumann ${peter.signature}\n`;
    const malformed = [
      peterNote.replace("— PeterNeumann ", "— Peter Neumann "),
      peterNote.replace("— PeterNeumann ", "— Peter+Neumann "),
      peterNote.replace("— PeterNeumann ", "— Peter\u2003Neumann "),
      // The same bytes by another spelling: the last digit has four bits too many.
      peterNote.replace("nAM=", "nAN="),
      peterNote.replace(/\n$/, "x"),
      peterNote.replace("\nthen", "\r\nthen"),
      peterNote.replace("think", "th\0nk"),
      peterNote.replace("think", "th\ud800nk"),
      `${peter.text}\n${line.repeat(65)}`,
      signNote(`${"long\n".repeat(30_000)}`, enoch),
    ];
    for (const note of malformed) expect(() => parseNote(note), JSON.stringify(note)).toThrow(NoteError);
    expect(parseNote(`${peter.text}\n${line.repeat(64)}`).signatures).toHaveLength(64);
    expect(parseNote(`a\n\nb\n\n${line}`).text).toBe("a\n\nb\n");
    const largest = `${"x".repeat(128 * 1024 - 2 - Buffer.byteLength(line))}\n\n${line}`;
    expect(parseNote(largest).signatures).toHaveLength(1);
    expect(() => parseNote(`x${largest}`)).toThrow("more than 131072 bytes");
  });
});

describe("a key", () => {
  test("is refused when any byte of its text is changed, lost or added", () => {
    const quantum = keyText("prs.example/scores", "", "ml-dsa-44");
    const key = parseSigningKey(quantum);
    expect([key.kind, key.raw.length, quantum.length]).toEqual(["ml-dsa-44", 1312, 84]);
    const public44 = verifierText(key);
    expect(parseVerifierKey(public44)).toMatchObject({ name: key.name, id: key.id, kind: "ml-dsa-44" });
    const parsers = {
      ...{ [peter.public]: parseVerifierKey, [peter.private]: parseSigningKey },
      ...{ [public44]: parseVerifierKey, [quantum]: parseSigningKey },
    };
    for (const [text, parse] of Object.entries(parsers)) {
      for (let place = 0; place <= text.length; place += 1) {
        const [before, after] = [text.slice(0, place), text.slice(place)];
        const next = String.fromCharCode(after.charCodeAt(0) + 1);
        const lost = after.slice(1);
        for (const other of [before, after, `${before} ${after}`, before + lost, before + next + lost])
          if (other !== text) expect(() => parse(other), other).toThrow(NoteKeyError);
      }
    }
  });

  test("of another algorithm or length is refused, and a private one in place of a public one", () => {
    expect(() =>
      parseVerifierKey("PeterNeumann+173116ae+ZRpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"),
    ).toThrow(/Ed25519/);
    expect(() => parseVerifierKey(peter.private)).toThrow(/private key/);
    expect(() => parseSigningKey(peter.public)).toThrow(/PRIVATE\+KEY\+/);
    for (const parse of [parseVerifierKey, parseSigningKey])
      expect(() => parse(`${peter.private}x`)).toThrow(/^(?!.*AYEKFALV)/);
  });

  test("may have a name without spaces, plus signs and characters that nobody sees", () => {
    for (const name of ["x", "prs.example/scores", "Größe", "名前"]) expect(isKeyName(name), name).toBe(true);
    const between = [" ", "+", "\t", "\u00a0", "\u0085", "\u202e"].map((one) => `a${one}b`);
    for (const name of ["", " ", "\ud800", "x".repeat(201), ...between])
      expect(isKeyName(name), JSON.stringify(name)).toBe(false);
  });
});

test("a checkpoint says what it was made of, and nothing else is one", () => {
  const note = signCheckpoint({ key: testKey() }, tree);
  expect(parseCheckpoint(note)).toEqual({ origin: "prs.example/scores", ...tree });
  const changed = (from: string | RegExp, to: string) => note.replace(from, to);
  for (const other of [
    changed("20852163", "020852163"),
    changed("20852163", "0"),
    changed("20852163", "2e3"),
    changed("20852163", "checked"),
    changed("prs.example/scores\n", "\n"),
    changed("20852163", "entry 20852163"),
    changed("\n\n", "\nan extension line\n\n"),
    changed(/q6ur.*\n/, "q6ur\n"),
    peterNote,
  ])
    expect(() => parseCheckpoint(other), other).toThrow(NoteError);
});

describe("a cosignature", () => {
  test("tells its time in 63 bits, and other signatures none", () => {
    const made = (time: bigint, more = "signature") => {
      const bytes = Buffer.alloc(8);
      bytes.writeBigUInt64BE(time);
      return Buffer.concat([bytes, Buffer.from(more)]);
    };
    expect(timeOf("ml-dsa-44", made(1_700_000_000n))).toBe(1_700_000_000);
    expect(timeOf("cosignature-ed25519", made(2n ** 63n - 1n))).toBe(2 ** 63);
    expect(timeOf("cosignature-ed25519", made(2n ** 63n))).toBeUndefined();
    expect(timeOf("ml-dsa-44", made(1n, ""))).toBeUndefined();
    expect(timeOf("ed25519", made(1n))).toBeUndefined();
    const seconds = () => Math.floor(Date.now() / 1000);
    const before = seconds();
    const line = signatureLine(
      testKey("w", "", "cosignature-ed25519"),
      parseNote(signCheckpoint({ key: enoch }, tree)).text,
    );
    const time = timeOf("cosignature-ed25519", parseSignature(line).signature)!;
    expect([before <= time, time <= seconds()]).toEqual([true, true]);
  });

  test("of ML-DSA-44 names key and log in 255 bytes each at most", () => {
    const name = (bytes: number) => "ä".repeat(bytes >> 1) + "x".repeat(bytes & 1);
    const textOf = (origin: string) => `${origin}\n7\n${tree.head.toString("base64")}\n`;
    const cosign = (key: string, origin: string) =>
      signatureLine(testKey(key, "", "ml-dsa-44"), textOf(origin), 1);
    expect(cosign(name(255), name(255))).toContain("— ä");
    const tooLong = "A cosignature is about a checkpoint";
    expect(() => cosign(name(256), "x")).toThrow(tooLong);
    expect(() => cosign("x", name(256))).toThrow(tooLong);
  });
});

import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, test } from "vitest";
import { policyOf, type Witness } from "../../../snapshots/format/note.ts";
import { leafHash, treeHead } from "../../../snapshots/format/tree.ts";
import type { SigningKey } from "../../../snapshots/trust/notes/note-keys.ts";
import { mergeNotes, signatureLine, signNote } from "../../../snapshots/trust/notes/signed-note.ts";
import { type Submission, Witnesses } from "../../../snapshots/trust/witnesses.ts";
import { consistencyPath } from "../../helpers/store/consistency.ts";
import { testKey } from "../../helpers/store/signing.ts";

// What real witnesses make of a log that grows, forks or is set back is in witnessed-store.test.ts.

const askWitnesses = (asked: readonly Witness[], submission: Submission, deadlineMs = 590_000) =>
  new Witnesses(policyOf([]), deadlineMs).ask(asked, submission);

const key = testKey();
const cosignerOf = (name: string, variant = "") => testKey(name, variant, "cosignature-ed25519");

const leavesOf = (size: number) =>
  Array.from({ length: size }, (_, place) => leafHash(Buffer.from(`${place}`)));

function submission(size: number): Submission {
  const leaves = leavesOf(size);
  const text = `${key.name}\n${size}\n${treeHead(leaves).toString("base64")}\n`;
  return { note: signNote(text, key), size, consistency: (from) => consistencyPath(leaves, from) };
}

describe("a witness that", () => {
  const cosigner = cosignerOf("witness.example/w");
  const first = submission(4);
  const text = first.note.slice(0, first.note.indexOf("\n\n") + 1);
  const cosignature = (of = text, signer = cosigner, time = 1_700_000_000) =>
    `${signatureLine(signer, of, time)}\n`;

  /** One before empty lines, of so many bytes together. */
  function padded(bytes: number): Buffer {
    const body = Buffer.alloc(bytes, "\n");
    body.write(cosignature());
    return body;
  }

  /** Does something while a witness runs that answers so. */
  async function beside<T>(listener: RequestListener, work: (witness: Witness) => Promise<T>): Promise<T> {
    const server = createServer(listener).listen(0, "127.0.0.1");
    await once(server, "listening");
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    try {
      return await work({ name: "w", key: cosigner, url });
    } finally {
      server.closeAllConnections();
      server.close();
    }
  }
  /** Asks a witness that answers so. */
  const askOne = async (listener: RequestListener, submitted = first, deadlineMs?: number) =>
    (await beside(listener, (witness) => askWitnesses([witness], submitted, deadlineMs)))[0]!;
  const answering = (status: number, body: string | Buffer): RequestListener => {
    return (request, response) => void request.resume().on("end", () => response.writeHead(status).end(body));
  };
  const leading: RequestListener = (_, response) =>
    void response.writeHead(307, { location: "http://127.0.0.1:1" }).end();
  const otherRoot = text.replace(/.{44}\n$/, `${"A".repeat(43)}=\n`);

  test.each([
    ["answers 500", answering(500, "no\u001b[31m database\n"), /^it answers 500: no \[31m database$/],
    ["does not know the log", answering(404, ""), /^it answers 404$/],
    ["answers without a body", answering(204, ""), /^it answers 204$/],
    ["cosigns nothing", answering(200, ""), /^its answer has no signature of witness.example\/w\+/],
    ["answers no signatures", answering(200, "fine\n"), /line that is no signature/],
    ["cosigns another root", answering(200, cosignature(otherRoot)), /is wrong/],
    ["cosigns another size", answering(200, cosignature(text.replace("\n4\n", "\n5\n"))), /is wrong/],
    ["answers for another", answering(200, cosignature(text, cosignerOf("w"))), /has no signature of/],
    ["signs without a time", answering(200, cosignature(text, cosigner, 0)), /tells no time/],
    ["answers too much", answering(200, padded(65_537)), /more than 65536 bytes/],
    ["answers 409 for ever", answering(409, "3\n"), /409 again, to the size 3/],
    ["answers 409 without a size", answering(409, "-1\n"), /409 without a size/],
    ["leads elsewhere", leading, /cannot be asked/],
    ["hangs up", (request) => void request.socket.destroy(), /cannot be asked/],
  ] as [string, RequestListener, RegExp][])(
    "%s is told of, and cosigns nothing",
    async (_, listener, fault) => {
      const answer = await askOne(listener);
      expect("fault" in answer && answer.fault).toMatch(fault);
      expect(Object.keys(answer)).toEqual(["witness", "fault"]);
    },
  );

  test("answers as much as it may, to a proof as long as one may be, cosigns", async () => {
    const long = (hashes: number) => ({
      ...first,
      consistency: async () => Array(hashes).fill(Buffer.alloc(32)),
    });
    const asked = (hashes: number) => askOne(naming(1, [], padded(65_536)), long(hashes));
    expect(await asked(63)).toMatchObject({ line: cosignature().trim() });
    expect(await asked(64)).toMatchObject({ fault: "the proof from 1 has more than 63 hashes" });
  });

  test("does not answer, or not to the end, is not waited for", async () => {
    expect(await askOne(() => {}, first, 50)).toMatchObject({ fault: "it did not answer in time" });
    const half: RequestListener = (_, response) => void response.writeHead(200).write(cosignature());
    expect(await askOne(half, first, 50)).toMatchObject({ fault: "it did not answer in time" });
  });

  test("has seen a larger tree, or another one, is told with its size", async () => {
    const fault = "it has seen 5 entries of the log, not 4";
    expect(await askOne(answering(409, "5\n"))).toMatchObject({ size: 5, fault });
    expect(await askOne(answering(422, ""))).toMatchObject({ otherTree: true });
  });

  test("has no address, or none of the web, is not asked", async () => {
    const asked = [undefined, "ftp://w.example"].map((url) => ({ name: "w", key: cosigner, url }));
    expect(await askWitnesses(asked, first)).toMatchObject([
      { fault: "the policy has no address of it" },
      { fault: "ftp://w.example is no http(s) address" },
    ]);
  });

  /** Answers the first time with a size, then with a cosignature, and keeps what it was asked. */
  function naming(size: number, asked: string[], answer?: Buffer): RequestListener {
    return (request, response) => {
      let body = "";
      request.setEncoding("utf8").on("data", (part) => {
        body += part;
      });
      request.on("end", () => {
        asked.push(body);
        if (asked.length === 1) response.writeHead(409).end(`${size}\n`);
        else response.end(answer ?? cosignature(text, cosignerOf("unknown")) + cosignature());
      });
    };
  }

  test.for([3, 4])(
    "names the size %i that it has seen is asked again with the proof from there",
    async (size) => {
      const asked: string[] = [];
      const answer = await askOne(naming(size, asked));
      expect(answer).toMatchObject({ line: cosignature().trim(), time: expect.any(Number) });
      const proof = (await consistencyPath(leavesOf(4), size)).map((hash) => `${hash.toString("base64")}\n`);
      expect(asked).toEqual([`old 0\n\n${first.note}`, `old ${size}\n${proof.join("")}\n${first.note}`]);
    },
  );
});

test("cosignatures of one size are merged, each witness's once, and wrong ones left out", () => {
  const [a, b] = [cosignerOf("a"), cosignerOf("b")];
  const { note } = submission(4);
  const text = note.slice(0, note.indexOf("\n\n") + 1);
  const line = (signer: SigningKey, of = text, time = 1) => `${signatureLine(signer, of, time)}\n`;
  const keys = [key, a, b];
  expect(mergeNotes(note + line(b), note + line(a), keys)).toBe(note + line(a) + line(b));
  expect(mergeNotes(note + line(a, text, 2), note + line(a), keys)).toBe(note + line(a));
  expect(mergeNotes(note + line(a, text.replace("4", "5")), note, keys)).toBe(note);
  // Whoever knows another key may count its signature. Those that are known have room before any others.
  const unknown = line(testKey("c"));
  expect(mergeNotes(note + line(b), note + unknown, keys)).toBe(note + line(b) + unknown);
  const namesake = line(cosignerOf("a", "another"));
  expect(mergeNotes(note + namesake, undefined, keys)).toBe(note + namesake);
  const many = Array.from({ length: 63 }, (_, n) => line(testKey(`c${n}`)));
  const full = mergeNotes(note + line(a) + line(b), note + many.join(""), keys);
  expect(full).toBe(note + line(a) + line(b) + many.slice(0, 61).join(""));
  for (const stored of [submission(5).note + line(a), "anybody's", note.slice(0, -9)])
    expect(mergeNotes(note, stored, keys)).toBe(note);
});

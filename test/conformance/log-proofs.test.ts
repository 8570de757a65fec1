import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  Client,
  ForkedLogError,
  type ScoreProof,
  verifyProof,
  verifyScoreProof,
} from "../../proxy/site/client/client.ts";
import { MarketProof } from "../../schemas/envelopes.ts";
import { type Tile, tilePath } from "../../snapshots/format/log-tiles.ts";
import { GrowingTree, leafHash } from "../../snapshots/format/tree.ts";
import { layout } from "../../snapshots/store/layout.ts";
import { verifierText } from "../../snapshots/trust/notes/note-keys.ts";
import { signCheckpoint } from "../../snapshots/trust/notes/signed-note.ts";
import { takenUp } from "../helpers/http/live-feed.ts";
import { startTestProxy, type TestProxy } from "../helpers/http/proxy.ts";
import { bearer, until } from "../helpers/http/proxy-client.ts";
import { market, marketsOf, publishRecords, slugs } from "../helpers/publish/records.ts";
import { alteredText } from "../helpers/store/altered.ts";
import { drawing } from "../helpers/store/drawing.ts";
import { testKey } from "../helpers/store/signing.ts";
import { python, pythonSays } from "./python.ts";

const signing = { key: testKey() };
const key = verifierText(signing.key);
const records = marketsOf(0, 700);
const saidTo = (texts: readonly string[], id: string) => pythonSays(texts.map((text) => ({ text, id, key })));

const seed = Number(process.env.SEED ?? Date.now() % 2 ** 31);
/** Texts that differ from this one in one place. */
function changedFrom(text: string): string[] {
  const draw = drawing(seed);
  return Array.from({ length: 120 }, () => alteredText(text, draw)).filter((one) => one !== text);
}

const count = 600;
const entries = (from: string) => Array.from({ length: count }, (_, n) => `${n < 300 ? "" : from}entry ${n}`);

/** Tiles and checkpoints of a log, answered as a service does. */
function logOf(texts: readonly string[], { gone = () => false }: { gone?: (path: string) => boolean } = {}) {
  const tree = new GrowingTree();
  const leaves = texts.map((text) => leafHash(Buffer.from(text)));
  const checkpoints = leaves.map((leaf) => {
    tree.append(leaf);
    return signCheckpoint(signing, { size: tree.size, head: tree.head() });
  });
  const level1 = [0, 1].map((n) => {
    const part = new GrowingTree();
    for (const leaf of leaves.slice(256 * n, 256 * n + 256)) part.append(leaf);
    return part.head();
  });
  const levels = [leaves, level1];
  const asked: string[] = [];
  const fetch = async (url: string | URL | Request) => {
    const path = String(url).split("/api/v1/")[1]!;
    asked.push(path);
    const [, level, index, width = "256"] = /^log\/tile\/(\d)\/(\d{3})(?:\.p\/(\d+))?$/.exec(path) ?? [];
    const at = 256 * Number(index);
    const hashes = levels[Number(level)]?.slice(at, at + Number(width));
    const found = hashes?.length === Number(width) && !gone(path);
    return new Response(found ? new Uint8Array(Buffer.concat(hashes)) : null, {
      status: found ? 200 : 404,
    });
  };
  return { checkpoints, asked, client: new Client({ url: "http://log.test", fetch, retries: 0 }) };
}

const honest = logOf(entries(""));
const forked = logOf(entries("other "));

describe("proofs of a service whose publisher signs", () => {
  let proxy: TestProxy;
  let headers: Record<string, string>;
  const snapshots: string[] = [];
  const { id } = market(7);
  const [slug] = slugs;
  beforeAll(async () => {
    proxy = await startTestProxy({ empty: true, pollSeconds: 0.1 });
    headers = bearer(await proxy.issue());
    for (let bri = 700; bri < 705; bri += 1) {
      const { snapshotId } = await publishRecords(proxy.storage, records, bri, { signing });
      snapshots.push(snapshotId);
    }
    await takenUp(proxy, snapshots.at(-1)!);
    await until("its checkpoint", async () => (await checkpoint()).startsWith(`${signing.key.name}\n5\n`));
  });
  afterAll(() => proxy.stop());

  const checkpoint = async () => (await proxy.get("/api/v1/checkpoint")).text;
  const ask = (path: string, accept = "application/json") =>
    proxy.get(path, { headers: { ...headers, accept } });

  test("hold for the commit of any snapshot, in the tree of the newest checkpoint, and tell no hash of a manifest", async () => {
    const hashes: string[] = [];
    for await (const { key: name } of proxy.storage.list(layout.manifest.prefix))
      hashes.push(name.slice(layout.manifest.prefix.length, -".json".length));
    const asked: { text: string; id: string; key: string }[] = [];
    for (const [n, snapshotId] of snapshots.entries()) {
      const known = { snapshotId, key };
      const [index, slug] = [n * 174, slugs[n % slugs.length]!];
      const { id } = market(index);
      const answer = await ask(`/api/v1/markets/${id}/proof?asOf=${snapshotId}`);
      const proof = MarketProof.parse(answer.json());
      expect(proof.market).toBe(JSON.stringify(market(index)));
      expect((await ask(`/api/v1/markets/${id}?asOf=${snapshotId}`)).text).toBe(proof.market);
      expect(await verifyProof(proof, { id, ...known })).toEqual(market(index));
      const ofScore: ScoreProof = (await ask(`/api/v1/scores/${slug}/proof?asOf=${snapshotId}`)).json();
      const score = await ask(`/api/v1/scores/${slug}?asOf=${snapshotId}`);
      expect(await verifyScoreProof(ofScore, { slug, ...known })).toEqual(score.json());
      expect(ofScore.score).toBe(score.text);
      for (const one of [proof, ofScore]) {
        expect([one.commit, one.checkpoint]).toEqual([n + 1, await checkpoint()]);
        expect(hashes.filter((hash) => JSON.stringify(one).includes(hash))).toEqual([]);
      }
      await expect(verifyProof(proof, { ...known, id: market(8).id })).rejects.toThrow("another market");
      await expect(verifyScoreProof(ofScore, { ...known, slug: "other" })).rejects.toThrow(
        "another protocol",
      );
      asked.push({ text: answer.text, id, key }, { text: JSON.stringify(ofScore), id: slug, key });
    }
    if (python) expect(await pythonSays(asked)).toEqual(snapshots.flatMap((id) => [id, id]));
  });

  test("end in a checkpoint that the client takes for one of the same log, or of another", async () => {
    const client = new Client({ url: `http://127.0.0.1:${proxy.port}` });
    const earlier = String(await proxy.storage.get(layout.logCheckpointOf(2)));
    expect(await client.checkpoint({ since: earlier })).toBe(await checkpoint());
    // Whoever has the key and the bucket makes another second commit.
    await expect(client.checkpoint({ since: forked.checkpoints[1]! })).rejects.toThrow(ForkedLogError);
  });

  test("come as the text of c2sp.org/tlog-proof to whoever prefers it", async () => {
    for (const [path, asked] of [
      [`/api/v1/markets/${id}/proof`, id],
      [`/api/v1/scores/${slug}/proof`, slug],
    ] as const) {
      const answer = await ask(path, "text/plain");
      const type = answer.headers["content-type"];
      expect(type).toBe("text/plain; charset=utf-8");
      expect((await ask(path, type)).headers.etag).toBe(answer.headers.etag);
      expect(answer.headers.vary).toContain("Accept");
      const json = await ask(path);
      expect(answer.headers.etag).not.toBe(json.headers.etag);
      const [head, ...rest] = answer.text.split("\n\n");
      const [version, extra, index, ...hashes] = head!.split("\n");
      const { inclusion } = (json.json() as MarketProof).proof;
      expect([version, extra!.slice(0, 6), index]).toEqual(["c2sp.org/tlog-proof@v1", "extra ", "index 4"]);
      expect(hashes.map((hash) => Buffer.from(hash, "base64").toString("hex"))).toEqual(inclusion);
      expect(rest.join("\n\n")).toBe(await checkpoint());
      if (python) expect(await saidTo([answer.text], asked)).toEqual([snapshots.at(-1)]);
    }
  });

  test(`are refused with anything changed or left out, in market, proof and checkpoint (seed ${seed})`, async () => {
    const { text } = await ask(`/api/v1/markets/${id}/proof`);
    const changed = changedFrom(text);
    const accepts = async (one: string) => verifyProof(JSON.parse(one), { id, key, asOf: snapshots.at(-1)! });
    await accepts(text);
    for (const one of changed) await expect(accepts(one), one).rejects.toThrow();
    const ofScore = (await ask(`/api/v1/scores/${slug}/proof`)).text;
    const wrong = changedFrom(ofScore);
    for (const one of wrong)
      await expect((async () => verifyScoreProof(JSON.parse(one), { slug, key }))(), one).rejects.toThrow();
    if (!python) return;
    expect(await saidTo([text, ...changed], id)).toEqual([snapshots.at(-1), ...changed.map(() => "")]);
    expect(await saidTo([ofScore, ...wrong], slug)).toEqual([snapshots.at(-1), ...wrong.map(() => "")]);
  });

  test("come without checkpoint before the log is signed up to them, and not as text", async () => {
    const unsigned = await startTestProxy();
    try {
      const own = bearer(await unsigned.issue());
      const path = `/api/v1/markets/${id}/proof`;
      const answer: MarketProof = (await unsigned.get(path, { headers: own })).json();
      expect([answer.checkpoint, answer.proof.inclusion]).toEqual([null, null]);
      expect(await verifyProof(answer, { id })).toMatchObject({ id });
      await expect(verifyProof(answer, { key })).rejects.toThrow("nobody signed");
      const text = await unsigned.get(path, { headers: { ...own, accept: "text/plain" } });
      expect(text.json()).toMatchObject({ status: 404, code: "NOT_FOUND" });
    } finally {
      await unsigned.stop();
    }
  });
});

describe("the client and a log that grows", () => {
  const sizes = [1, 2, 255, 256, 257, 300, 301, 512, 600];

  test("accepts every log that goes on, by few tiles, and names both where one is shorter or forked", async () => {
    for (const before of sizes)
      for (const after of sizes)
        for (const { client, asked, checkpoints } of [honest, forked]) {
          const [old, now] = [honest.checkpoints[before - 1]!, checkpoints[after - 1]!];
          asked.length = 0;
          const error = await client.requireSameLog(old, now).catch((thrown: unknown) => thrown);
          if (after < before || (checkpoints === forked.checkpoints && before > 300)) {
            expect(error).toBeInstanceOf(ForkedLogError);
            expect(error).toMatchObject({ code: "FORKED_LOG", checkpoints: [old, now] });
          } else {
            expect(error).toBeUndefined();
            expect(asked.length).toBeLessThanOrEqual(before === after ? 0 : 4);
          }
        }
  });

  test("takes the full tile where a partial one is gone, and believes none that is missing or wrong", async () => {
    const path = (tile: Tile) => `log/tile/${tilePath(tile)}`;
    const partial = path({ level: 0, index: 0, width: 200 });
    const log = logOf(entries(""), { gone: (name) => name.includes(".p/") });
    const [old, now] = [log.checkpoints[99]!, log.checkpoints[199]!];
    await log.client.requireSameLog(old, now);
    expect(log.asked).toEqual([partial, path({ level: 0, index: 0, width: 256 })]);
    const empty = logOf(entries(""), { gone: () => true });
    await expect(empty.client.requireSameLog(old, now)).rejects.toMatchObject({ status: 404 });
    const other = logOf(entries("").map((text) => `${text}!`));
    // Tiles of another tree do not show that the log was forked.
    await expect(other.client.requireSameLog(old, now)).rejects.toMatchObject({ code: "MISMATCH" });
  });

  test("asks for another origin's log nothing", async () => {
    const [note] = honest.checkpoints as [string];
    const other = note.replace(signing.key.name, "another.example/log");
    await expect(honest.client.requireSameLog(note, other)).rejects.toThrow(ForkedLogError);
  });
});

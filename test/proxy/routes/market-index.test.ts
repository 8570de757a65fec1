import { randomBytes } from "node:crypto";
import { beforeAll, describe, expect, test } from "vitest";
import { Client } from "../../../proxy/site/client/client.ts";
import { MarketAbsence, MarketIndex } from "../../../schemas/envelopes.ts";
import type { HistoricalMarket } from "../../../schemas/records.ts";
import { hexOf, leafHash, pageRootOf } from "../../../snapshots/format/tree.ts";
import { sectionRootOf } from "../../../snapshots/index/index-header.ts";
import { layout, sha256 } from "../../../snapshots/store/layout.ts";
import { readCommit } from "../../../snapshots/store/log/commits.ts";
import { verifierText } from "../../../snapshots/trust/notes/note-keys.ts";
import { sameHash, segmentEnds } from "../../helpers/archive/odd-markets.ts";
import { takenUp } from "../../helpers/http/live-feed.ts";
import { type Ask, startTestProxy, type TestProxy } from "../../helpers/http/proxy.ts";
import { outcome, problemOf } from "../../helpers/http/proxy-client.ts";
import { serveTestProxy } from "../../helpers/http/proxy-served.ts";
import { market, publishRecords } from "../../helpers/publish/records.ts";
import { testKey } from "../../helpers/store/signing.ts";

const path = "/api/v1/markets/index";
const [perSegment, segments] = [100, 3];
const ends = [...segmentEnds().take(segments)];

const idOf = (n: number) => `00000000-0000-4000-a000-${String(n).padStart(12, "0")}`;

/** Two ids of the same hash are in the archive, in different segments. */
const shared = new Map([
  [10, sameHash[0]],
  [perSegment + 20, sameHash[1]],
]);

/** Markets of several segments, because some ids end one. Those of the first have many words that no others have. */
const records = Array.from({ length: perSegment * segments }, (_, index): HistoricalMarket => {
  const words = index < perSegment ? randomBytes(3000).toString("hex").match(/.{12}/g)!.join(" ") : "";
  const last = index % perSegment === perSegment - 1;
  const id = last ? ends[Math.floor(index / perSegment)]! : (shared.get(index) ?? market(index).id);
  return { ...market(index), id, question: `Will it ${index}? ${words}` };
});

const chunksOf = (bytes: Buffer, size: number) =>
  Array.from({ length: Math.ceil(bytes.length / size) }, (_, n) => bytes.subarray(n * size, (n + 1) * size));

const proxy = serveTestProxy({ empty: true, pollSeconds: 1 });
let key: string;
let ask: Ask;
let ids: string[];
beforeAll(async () => {
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
  ask = proxy.as(key);
  await takenUp(proxy, ids[2]!);
});

const indexOf = async (query = "") => MarketIndex.parse((await ask(`${path}${query}`)).json());
const partOf = async (hash: string): Promise<Buffer> => {
  const { status, body } = await ask(`${path}/${hash}`);
  expect([hash, status]).toEqual([hash, 200]);
  return body;
};
const left = () => proxy.left(key);

interface Header {
  sections: Record<string, [bytes: number, root: string]>;
  words: { hash: string };
}

// That several come together is tried in prices.test.ts, and by the client in test/proxy/client/recompute.test.ts.
test("every part is there by its hash", async () => {
  const takeChunks = async (section: Buffer, size: number) => {
    for (const chunk of chunksOf(section, size))
      expect((await partOf(hexOf(leafHash(chunk)))).equals(chunk)).toBe(true);
  };
  for (const { header, ids: stored, markets } of (await indexOf()).segments) {
    const text = await partOf(header.hash);
    const { words, sections }: Header = JSON.parse(String(text));
    expect([sha256(text), sha256(await partOf(words.hash))]).toEqual([header.hash, words.hash]);
    const hashes = await partOf(stored.hash);
    expect([hashes.length, sectionRootOf(hashes, 256)]).toEqual([6 * markets, stored.hash]);
    await takeChunks(hashes, 256);
    for (const [name, [bytes, root]] of Object.entries(sections)) {
      const section = await partOf(root);
      expect([name, section.length, sectionRootOf(section)]).toEqual([name, bytes, root]);
      await takeChunks(section, 4096);
      if (name !== "pageRoots") continue;
      for (const page of chunksOf(section, 32))
        expect(pageRootOf(chunksOf(await partOf(hexOf(page)), 32)).equals(page)).toBe(true);
    }
  }
});

test("a part of an older snapshot is there for as long as that is kept, also for a process that has just begun", async () => {
  const newest = new Set((await indexOf()).segments.map(({ header }) => header.hash));
  const [oldest, middle] = await Promise.all(
    ids.slice(0, 2).map(async (id) => {
      const { segments } = await indexOf(`?asOf=${id}`);
      return segments.filter(({ header }) => !newest.has(header.hash));
    }),
  );
  const hashes = [oldest![0]!.header.hash, oldest![0]!.ids.hash, middle![0]!.header.hash];
  await using other = await proxy.another({});
  const outcomes = async (by: TestProxy, alive: readonly string[]) => {
    const found = await Promise.all(hashes.map((hash) => by.as(key)(`${path}/${hash}`)));
    expect(found.map(outcome)).toEqual(alive);
  };
  for (const by of [other, proxy]) await outcomes(by, ["200", "200", "200"]);
  const { manifest } = (await readCommit(proxy.storage, 1))!;
  await proxy.storage.delete(layout.manifest(manifest.hash));
  for (const by of [other, proxy]) {
    // The listing of what can be read has become old.
    by.clock.now += 60_000;
    await outcomes(by, ["404 SECTION_NOT_FOUND", "404 SECTION_NOT_FOUND", "200"]);
  }
});

test("what must be hashed first is paid for by its work, and what nobody has costs one unit from then on", async () => {
  const each = 40;
  const closing = [...segmentEnds().take(30)];
  const rows = Array.from({ length: each * closing.length }, (_, index): HistoricalMarket => {
    const last = index % each === each - 1;
    return { ...market(index), id: last ? closing[Math.floor(index / each)]! : market(index).id };
  });
  await using other = await startTestProxy({ empty: true });
  await takenUp(other, (await publishRecords(other.storage, rows)).snapshotId);
  const costs = async (by: string, address: string) => {
    const before = await other.left(by);
    const answer = await other.as(by)(`${path}${address}`);
    return [outcome(answer), before - (await other.left(by))];
  };
  const [poor, rich] = [await other.issue({ owner: "poor", quota: 2 }), await other.issue()];
  const absent = `/absence?id=${idOf(1)}`;
  const none = `/${"0".repeat(64)}`;
  const { segments: all } = MarketIndex.parse((await other.as(rich)(path)).json());
  expect(all.length).toBeGreaterThanOrEqual(27);
  expect(await costs(rich, absent)).toEqual(["200", 1 + Math.floor((15 * all.length) / 400)]);
  expect(await costs(rich, absent)).toEqual(["200", 1]);
  expect(await costs(poor, none)).toEqual(["429 QUOTA_EXCEEDED", 2]);
  expect((await costs(rich, none))[0]).toBe("404 SECTION_NOT_FOUND");
  expect(await costs(rich, none)).toEqual(["404 SECTION_NOT_FOUND", 1]);
});

const hashOfId = (id: string) => Number.parseInt(sha256(id).slice(0, 8), 16);

describe("absence", () => {
  const absence = (id: string) => ask(`${path}/absence?id=${id}`);

  /** An id that the archive does not have, whose hash is within these bounds (exclusive). */
  function idBetween(low: number, high: number): string {
    for (let n = 0; ; n += 1) {
      const id = idOf(n);
      if (hashOfId(id) > low && hashOfId(id) < high) return id;
    }
  }

  // What the client refuses is in test/proxy/client/altered-answers.test.ts, and the client in Python agrees with it.
  const client = () => new Client({ url: `http://127.0.0.1:${proxy.port}`, key });
  const trust = { key: verifierText(testKey()) };

  test("of ids before the first and behind the last one, and of one between two chunks", async () => {
    for (let segment = 0; segment < segments; segment += 1) {
      const of = records.slice(segment * perSegment, (segment + 1) * perSegment);
      const sorted = of.map(({ id }) => hashOfId(id)).sort((a, b) => a - b);
      for (const place of [0, 64, 65, perSegment]) {
        const id = idBetween(sorted[place - 1] ?? -1, sorted[place] ?? 2 ** 32);
        expect((await client().absent(id, { trust })).markets).toBe(records.length);
      }
    }
  });

  test("of an id that shares its hash with others is shown with these", async () => {
    const [first, second, third] = sameHash;
    expect(hashOfId(first)).toBe(hashOfId(third));
    await client().absent(third, { trust });
    const { others } = MarketAbsence.parse((await absence(third)).json());
    expect(others.map(({ market }) => JSON.parse(market).id)).toEqual([first, second]);
    const before = await left();
    for (const present of [first, second]) {
      const { detail } = problemOf(await absence(present));
      expect(detail).toContain(`/api/v1/markets/${present}`);
    }
    // As every answer NOT_FOUND.
    expect(await left()).toBe(before);
  });
});

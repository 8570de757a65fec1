import { afterAll, beforeAll, expect, test } from "vitest";
import { Client, type Trust, verifyProof, verifyScoreProof } from "../../proxy/site/client/client.ts";
import type { MarketProof, ScoreProof } from "../../schemas/envelopes.ts";
import { decodeEntries } from "../../snapshots/format/log-tiles.ts";
import { headFromTiles, inclusionFromTiles, tileEncoder } from "../../snapshots/format/tree.ts";
import { rollback } from "../../snapshots/maintain/rollback.ts";
import { layout } from "../../snapshots/store/layout.ts";
import { tilesIn } from "../../snapshots/store/log/tiles.ts";
import { verifierText } from "../../snapshots/trust/notes/note-keys.ts";
import { signCheckpoint } from "../../snapshots/trust/notes/signed-note.ts";
import { type ArchiveProxy, startArchiveProxy } from "../helpers/http/archive-proxy.ts";
import { publishRecords, recordsOf, slugs } from "../helpers/publish/records.ts";
import { testKey } from "../helpers/store/signing.ts";
import { memoryStorage } from "../helpers/store/storages.ts";
import type { Objects } from "../helpers/store/tamper.ts";

// A service that shows old answers under the newest checkpoint, each with its true place in the log: those of every
// commit before, of which a rollback withdrew some, and those of another log that the same key signed.

const signing = { key: testKey() };
const key = verifierText(signing.key);
const trust = { key };
const [id, absent] = [recordsOf(0, 1)[0]!.id, "01234567-89ab-4cde-8f01-23456789abcd"];
const day = (n: number) => new Date(Date.UTC(2026, 2, n));

/** What an answer says of its commit. */
interface Said {
  snapshotId: string;
  commit: number;
  entry: string;
  checkpoint: string;
  inclusion?: string[];
  proof?: { inclusion: string[] };
}

/** The addresses whose answers tell their commit. */
const paths = {
  index: "/markets/index",
  absence: `/markets/index/absence?id=${absent}`,
  market: `/markets/${id}/proof`,
  score: `/scores/${slugs[0]}/proof`,
};

/** A service of a log of six commits, of which a rollback withdrew the third and the fourth. */
class Log {
  readonly objects: Objects = new Map();
  readonly storage = memoryStorage(this.objects);
  proxy!: ArchiveProxy;
  /** What it answered when each commit was the newest, by path, from the first commit on. */
  readonly answers: Record<string, Said>[] = [];

  async start(markets: number): Promise<void> {
    for (let n = 1; n <= 6; n += 1) {
      const now = () => day(n);
      if (n === 5) await rollback(this.storage, "2", now, { signing });
      else {
        const records = recordsOf(0, markets + n);
        await publishRecords(this.storage, records, 700 + n, { signing, now, resume: true });
      }
      this.proxy ??= await startArchiveProxy(this.storage);
      await this.proxy.refresh();
      const said: Record<string, Said> = {};
      for (const path of Object.values(paths)) said[path] = (await (await this.fetch(path)).json()) as Said;
      this.answers.push(said);
    }
  }

  fetch(path: string): Promise<Response> {
    const { address, headers } = this.proxy;
    return fetch(`${new URL(address).origin}/api/v1${path}`, { headers });
  }

  get checkpoint(): string {
    return String(this.objects.get(layout.logCheckpoint));
  }

  /** What was answered at a commit, with what leads from there to the newest checkpoint. */
  async forged(commit: number, path: string): Promise<Said> {
    const said = this.answers[commit - 1]![path]!;
    const size = this.answers.length;
    const hashes = await inclusionFromTiles(tilesIn(this.storage), said.commit - 1, size);
    const inclusion = hashes.map((hash) => hash.toString("hex"));
    const { checkpoint } = this;
    return said.proof
      ? { ...said, checkpoint, proof: { ...said.proof, inclusion } }
      : { ...said, checkpoint, inclusion };
  }

  /** A client, with other answers to some paths, and other tiles. */
  client(
    answerTo: (path: string) => Promise<Said | undefined> = async () => undefined,
    tiles: ReadonlyMap<string, Buffer> = new Map(),
  ) {
    const { address, headers } = this.proxy;
    const instead: typeof globalThis.fetch = async (target, init) => {
      const { pathname } = new URL(String(target));
      const path = pathname.slice("/api/v1".length);
      const tile = tiles.get(path);
      if (tile) return new Response(new Uint8Array(tile));
      const said = await answerTo(path);
      return said ? Response.json(said) : globalThis.fetch(target, init);
    };
    const { origin } = new URL(address);
    return new Client({ url: origin, key: headers.authorization!.slice(7), fetch: instead, retries: 0 });
  }

  /** A client of a service that answers from a commit, and otherwise says what it has to. */
  olderClient(commit: number) {
    return this.client(async (path) => {
      const known = Object.values(paths).find((each) => each.split("?")[0] === path);
      return known === undefined ? undefined : this.forged(commit, known);
    });
  }
}

const log = new Log();
const other = new Log();
beforeAll(async () => {
  await log.start(40);
  await other.start(30);
});
afterAll(() => Promise.all([log.proxy?.stop(), other.proxy?.stop()]));

async function count(items: AsyncIterable<unknown>): Promise<number> {
  let found = 0;
  for await (const _ of items) found += 1;
  return found;
}

/** Everything that is checked against the log. */
const operations: [name: string, run: (client: Client, trust: Trust) => Promise<unknown>][] = [
  ["a total", (client, trust) => client.recompute({ trust })],
  ["facets", (client, trust) => client.recompute({ by: ["tier"], filters: { disputed: true }, trust })],
  ["rows", (client, trust) => count(client.rows({}, { verified: true, trust }))],
  ["a page", (client, trust) => client.page({}, { verified: true, trust })],
  ["an absence", (client, trust) => client.absent(absent, { trust })],
  ["a market", async (client) => verifyProof(await client.proof(id), { id, key })],
  [
    "a score",
    async (client) => verifyScoreProof(await client.scoreProof(slugs[0]!), { slug: slugs[0]!, key }),
  ],
];

test.each(operations)(
  "%s is of the newest commit, and none before it passes for that, withdrawn or not",
  async (_, run) => {
    await run(log.client(), trust);
    for (const commit of [1, 2, 3, 4, 5])
      await expect(run(log.olderClient(commit), trust), `commit ${commit}`).rejects.toThrow(
        `of commit ${commit}, and the log goes on to commit 6`,
      );
  },
);

// Proofs are checked without asking anybody for tiles.
test.each(operations.filter(([name]) => !["a market", "a score"].includes(name)))(
  "%s of another log of the same key is refused to whoever has a checkpoint",
  async (_, run) => {
    for (const { [paths.index]: said } of log.answers) {
      const since = said!.checkpoint;
      await run(log.client(), { ...trust, since });
      await expect(run(other.client(), { ...trust, since })).rejects.toMatchObject({
        name: "ForkedLogError",
        code: "FORKED_LOG",
        checkpoints: [since, other.checkpoint],
      });
    }
  },
);

test("what vouches for an answer can be kept, and looked up in the log", async () => {
  const { vouched } = await log.client().recompute({ trust: { ...trust, since: log.checkpoint } });
  expect(vouched).toMatchObject({
    by: ["key", "since"],
    checkpoint: { size: 6, text: log.checkpoint },
    complete: true,
  });
  const tile = Buffer.from(await (await log.fetch("/log/tile/0/000.p/6")).arrayBuffer());
  expect(vouched.leaf).toBe(tile.subarray(32 * 5).toString("hex"));
  // Without a key, a checkpoint shows where the log goes on, but not that a publisher signed it.
  const unsigned = await log.client().recompute({ trust: { since: log.checkpoint } });
  expect(unsigned.vouched).toMatchObject({ by: ["since"], complete: false });
  await expect(log.client().recompute({ trust: { since: "none" } })).rejects.toMatchObject({
    code: "INVALID_PARAMETER",
    parameter: "trust",
  });
});

test("an older commit is taken where the caller names it, and for its own time only", async () => {
  const { entry, snapshotId } = log.answers[0]![paths.index]!;
  const first = log.olderClient(1);
  const { total, vouched } = await first.recompute({ asOf: snapshotId, trust });
  expect(total).toBe(41);
  expect(JSON.parse(entry).publishedAt).toBe(vouched.publishedAt);
  for (const named of [{ entry: vouched.entry }, { ...trust, snapshotId }])
    expect((await log.olderClient(1).recompute({ trust: named })).total).toBe(41);
  const times = [
    [1, "2026-03-01"],
    [2, "2026-03-02T00:00:00Z"],
    // The rollback took back the two after it.
    [2, "2026-03-04T23:59:59.999Z"],
    [5, "2026-03-05T12:00:00+02:00"],
    [6, "2026-03-06"],
    [6, "2029-01-01"],
  ] as const;
  for (const [meant, asOf] of times) {
    expect((await log.client().recompute({ asOf, trust })).commit, asOf).toBe(meant);
    for (const commit of [1, 2, 3, 4, 5, 6])
      if (commit !== meant)
        await expect(
          log.olderClient(commit).recompute({ asOf, trust }),
          `${asOf} ${commit}`,
        ).rejects.toMatchObject({
          name: "VerificationError",
          what: "entry",
        });
  }
  const proof = (await log.forged(1, paths.market)) as unknown as MarketProof;
  const score = (await log.forged(1, paths.score)) as unknown as ScoreProof;
  expect(await verifyProof(proof, { asOf: snapshotId, key })).toMatchObject({ id });
  await expect(verifyProof(proof, { asOf: "0".repeat(64), key })).rejects.toThrow(
    `of snapshot ${snapshotId}`,
  );
  await expect(verifyScoreProof(score, { asOf: "2026-02-28", key })).rejects.toThrow("not of 2026-02-28");
});

test("a log whose newest entry takes itself back is refused, however it spells that", async () => {
  const bundle = log.objects.get(layout.logTile("entries/000.p/6"))!;
  const entries = decodeEntries(bundle)!;
  const last = JSON.parse(String(entries[5]));
  for (const withdrawn of ["[[3,9007199254740992]]", "[[3,1e999]]", '[["3","9"]]', "[[3,3],[3,6]]"]) {
    const text = JSON.stringify({ ...last, withdrawn: 0 }).replace(
      '"withdrawn":0',
      `"withdrawn":${withdrawn}`,
    );
    const encode = tileEncoder([...entries.slice(0, 5), Buffer.from(text)]);
    const tiles = { "entries/000.p/6": "entries", "0/000.p/6": 0 } as const;
    const stored = Object.entries(tiles).map(([name, level]) => {
      return [`/log/tile/${name}`, encode({ level, index: 0, width: 6 })!] as const;
    });
    const forged = memoryStorage(new Map(stored.map(([path, bytes]) => [`public${path}`, bytes])));
    const head = await headFromTiles(tilesIn(forged), 6);
    const checkpoint = signCheckpoint(signing, { size: 6, head });
    const path = (await inclusionFromTiles(tilesIn(forged), 1, 6)).map((hash) => hash.toString("hex"));
    const said = { ...log.answers[1]![paths.index]!, checkpoint, inclusion: path };
    const client = log.client(
      async (path) => (path === paths.index ? said : undefined),
      new Map<string, Buffer>(stored),
    );
    const refused = "Commit 6 withdraws itself.";
    await expect(client.recompute({ asOf: "2026-03-02", trust }), withdrawn).rejects.toThrow(refused);
  }
});

test("a process that has not taken up the newest commit answers with its own checkpoint", async () => {
  await publishRecords(log.storage, recordsOf(0, 90), 800, { signing, now: () => day(7) });
  await expect.poll(async () => (await log.fetch("/checkpoint")).text()).toBe(log.checkpoint);
  const { commit, vouched } = await log.client().recompute({ trust });
  expect([commit, vouched.checkpoint?.size]).toEqual([6, 6]);
});

import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { Commit } from "../../schemas/store/stored-objects.ts";
import { encodeWords, unicodeVersion } from "../../snapshots/index/encode-words.ts";
import { WordTable } from "../../snapshots/index/word-table.ts";
import { rollback } from "../../snapshots/maintain/rollback.ts";
import type { PublishOptions } from "../../snapshots/publish/publish.ts";
import { layout } from "../../snapshots/store/layout.ts";
import { referTo } from "../../snapshots/store/objects.ts";
import { verifierText } from "../../snapshots/trust/notes/note-keys.ts";
import { decodeWords } from "../helpers/archive/index-rows.ts";
import { segmentEnds } from "../helpers/archive/odd-markets.ts";
import { startLink } from "../helpers/http/link.ts";
import { startTestProxy, type TestProxy } from "../helpers/http/proxy.ts";
import { until } from "../helpers/http/proxy-client.ts";
import { expectEnd, runCommand } from "../helpers/publish/commands.ts";
import { publishRecords, recordsOf } from "../helpers/publish/records.ts";
import { testKey } from "../helpers/store/signing.ts";
import { memoryStorage } from "../helpers/store/storages.ts";
import { flipInIndex, newestManifest, type Objects, replaceBesides } from "../helpers/store/tamper.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

const folder = testFolder();
const key = testKey();

const [segmentEnd] = segmentEnds().take(1);
/**
 * Markets of two segments, of which the newer one has a rare category. The question of the oldest has a character that
 * not every version of Unicode knows.
 */
const markets = recordsOf(0, 100).map((one, place) => ({
  ...one,
  ...(place === 50 && { id: segmentEnd! }),
  ...(place === 7 && { category: "Odd" }),
  ...(place === 99 && { question: "Will it \u{1fae0}rain?" }),
}));
const more = [...markets, ...recordsOf(200, 201)];

const objects: Objects = new Map();
/** What every test begins with: the first commit. */
let first: Objects;
const storage = memoryStorage(objects);
let time = Date.parse("2026-03-01T00:00:00.000Z");
const now = () => {
  time += 3_600_000;
  return new Date(time);
};
let proxy: TestProxy;
let copy: string;

beforeAll(async () => {
  await publishRecords(storage, markets, 700, { signing: { key }, now });
  expect(newestManifest(objects).segments).toHaveLength(2);
  first = new Map(objects);
});
beforeEach(async () => {
  objects.clear();
  for (const [name, bytes] of first) objects.set(name, bytes);
  proxy = await startTestProxy({ empty: true });
  copy = await mkdtemp(join(folder, "copy-"));
  await writeFile(join(folder, "key"), await proxy.issue());
  await writeFile(join(folder, "key.pub"), verifierText(key));
});
afterEach(() => proxy.stop());

const publish = (all = more, signing: PublishOptions["signing"] = { key }) =>
  publishRecords(storage, all, 700, { signing, now, resume: true });

/**
 * Publishes a change of the newest snapshot's index, in a commit whose hashes and signatures are all right: the owner
 * of the key builds on an unsigned commit with the change, and rolls back to it.
 */
async function publishLie(change: () => void): Promise<void> {
  const { commit } = newestCommit().entry;
  await publishRecords(storage, more, 700, { now, resume: true });
  await rollback(storage, String(commit), now, { signing: { unsigned: true } });
  change();
  await publish(more, { key, over: commit + 2 });
  await rollback(storage, String(commit + 2), now, { signing: { key } });
}

function newestCommit(): Commit {
  const keys = [...objects.keys()].filter((name) => name.startsWith(layout.commit.prefix)).sort();
  return Commit.parse(JSON.parse(String(objects.get(keys.at(-1)!))));
}

/** Lets the proxy have what the store has now. */
async function serve(): Promise<void> {
  const late = (name: string) => Number(/^(commits|checked)/.test(name));
  for (const [name, bytes] of [...objects].sort(([a], [b]) => late(a) - late(b)))
    await proxy.storage.put(name, bytes);
  const { commit } = newestCommit().entry;
  await until(`the proxy to serve commit ${commit}`, async () => {
    const { status, text } = await proxy.get("/api/v1/status");
    return status === 200 && JSON.parse(text).commit === commit;
  });
}

const sync = (...more: string[]) => syncFrom(`http://127.0.0.1:${proxy.port}`, ...more);

async function syncFrom(url: string, ...more: string[]) {
  await serve();
  const given = ["--url", url, "--key-file", "key", "--trusted-key", "key.pub", "--to", copy, ...more];
  return runCommand("sync", given, { from: folder });
}

const stateOf = async () => JSON.parse(await readFile(join(copy, "state.json"), "utf8"));

// Which words and headers are wrong is judged as verify judges it: see test/snapshots/verify/index.test.ts.
describe("A published index of which a bit was flipped is named, with all hashes and signatures made right:", () => {
  test.each(["section times", "ids", "words"])("in %s", async (told) => {
    const section = told.replace("section ", "");
    await publishLie(() => flipInIndex(objects, 1, section));
    const ended = await sync();
    const { segments } = newestManifest(objects);
    const { snapshotId } = newestCommit().entry;
    const name = `segment 2 of 2, whose root is ${segments[1]!.root}`;
    const lies = `The index of snapshot ${snapshotId} does not follow from its markets: in ${name}, ${told}.\n`;
    expectEnd(ended, 6, lies);
    await expect(readFile(join(copy, "archive.ndjson"))).rejects.toMatchObject({ code: "ENOENT" });
  });
});

test("A newer commit of the copy's snapshot whose index lies is named, and the copy stays", async () => {
  expect(await sync()).toMatchObject({ code: 0 });
  const before = await stateOf();
  expect(before.indexRoot).toBe(newestCommit().entry.indexRoot);
  await publishLie(() => flipInIndex(objects, 0, "oracle"));
  expect(newestCommit().entry.snapshotId).toBe(before.snapshotId);
  expectEnd(await sync(), 6, /: in segment 1 of 2, .*, section oracle\.\n/);
  expect(await stateOf()).toEqual(before);
});

test("Segments that did not change are not computed again", async () => {
  expect(await sync()).toMatchObject({ code: 0 });
  const path = join(copy, ".sync", "current", "index.json");
  const index = JSON.parse(await readFile(path, "utf8"));
  expect(index.segments.map(({ root }: { root: string }) => root)).toEqual(
    newestManifest(objects).segments.map(({ root }) => root),
  );
  // What is told of them shows that they come from here.
  for (const segment of index.segments) segment.unchecked = ["columns"];
  await writeFile(path, JSON.stringify(index));
  await publish();
  expectEnd(await sync(), 0, "Columns of 1 segment were not checked");
  // Without this file all of them are computed.
  await rm(path);
  await publish(markets);
  expect(await sync()).toMatchObject({ code: 0, stdout: expect.not.stringContaining("not checked") });
});

describe("Words that another version of Unicode made", () => {
  const replaceWords = (change: (words: string[][]) => string[][]) => {
    const [segment] = newestManifest(objects).segments;
    const words = decodeWords(new WordTable("words", objects.get(layout.words(segment!.words.hash))!));
    const bytes = encodeWords(change(words), "15.0");
    const ref = referTo(bytes);
    objects.set(layout.words(ref.hash), bytes);
    replaceBesides(objects, 0, { words: ref });
  };

  test("are checked where every version finds them, and otherwise told as not checked", async () => {
    await publishLie(() => replaceWords((words) => words));
    expect(await sync()).toMatchObject({ code: 0, stdout: expect.not.stringContaining("not checked") });
    await publishLie(() => replaceWords(([first, ...rest]) => [[...first!, "other"], ...rest]));
    const told = `Words of 1 segment were not checked: they were made by another version of Unicode than ${unicodeVersion}`;
    // The second run finds nothing new, and says so again.
    for (let run = 1; run <= 2; run += 1) {
      expectEnd(await sync(), 0, told);
    }
    const { code, stdout } = await sync("--json");
    expect([code, JSON.parse(stdout).unchecked]).toEqual([0, [expect.stringContaining(told)]]);
  });

  test("cannot be judged, and nothing is wrong, while the service does not give what they are compared with", async () => {
    await publishLie(() => replaceWords((words) => words));
    const link = await startLink(proxy.port);
    for (const part of [/index\?/, /index\/[0-9a-f]{64}$/]) {
      link.alter = (target, answer) => (part.test(target) ? { ...answer, status: 503 } : undefined);
      const said = `${link.url}: The index cannot be fetched: it answered with status 503`;
      expectEnd(await syncFrom(link.url), 5, said);
    }
    await link.stop();
  });
});

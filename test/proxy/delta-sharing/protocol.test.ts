import { mkdtemp, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { readExported } from "../../../snapshots/export/export-records.ts";
import { revokeKey } from "../../../snapshots/keys/keys.ts";
import { layout, sha256 } from "../../../snapshots/store/layout.ts";
import { readCommit } from "../../../snapshots/store/log/commits.ts";
import { seal } from "../../../snapshots/store/objects.ts";
import type { Signing } from "../../../snapshots/trust/log/believe.ts";
import { verifierText } from "../../../snapshots/trust/notes/note-keys.ts";
import { signRecord } from "../../../snapshots/trust/notes/signed-note.ts";
import { exportNewest } from "../../helpers/archive/exports.ts";
import { type Ask, startTestProxy, type TestProxyOptions } from "../../helpers/http/proxy.ts";
import { type Answer, until } from "../../helpers/http/proxy-client.ts";
import { marketsOf, publishRecords } from "../../helpers/publish/records.ts";
import { linkedStore } from "../../helpers/store/linked-store.ts";
import { testKey } from "../../helpers/store/signing.ts";
import { testFolder } from "../../helpers/store/test-folder.ts";

const folder = testFolder();
const markets = marketsOf(0, 60);
const shares = "/delta-sharing/shares";
const table = `${shares}/prs/schemas/archive/tables/markets`;
const day = (date: number) => `2026-02-${String(date).padStart(2, "0")}T00:00:00.000Z`;

interface FileLine {
  file: {
    url: string;
    id: string;
    size: number;
    stats: string;
    version: number;
    expirationTimestamp: number;
  };
}

interface Served extends TestProxyOptions {
  changes?: boolean | undefined;
  signing?: Signing | undefined;
}

/** Commits 1 to 4 of one day each, of which 1, 3 and 4 are exported; 4 has files of few markets. */
const published = ({ changes = false, signing = {} }: Pick<Served, "changes" | "signing">) =>
  linkedStore(folder, `${changes} ${signing.key?.name}`, async (storage) => {
    const files = await mkdtemp(join(folder, "exports-"));
    for (const number of [1, 2, 3, 4]) {
      const now = () => new Date(day(number));
      await publishRecords(storage, markets.slice(0, 56 + number), 500 + number, { now, signing });
      const small = number === 4 && { maxTextBytes: 10_000 };
      if (number !== 2) await exportNewest(storage, files, { ...small, changes, signing });
    }
  });

async function served(options: Served = {}) {
  const { changes, signing, ...others } = options;
  const { location: snapshotStore } = await published({ changes, signing });
  const apiUrl = new URL("https://api.example.org/");
  const proxy = await startTestProxy({ empty: true, apiUrl, snapshotStore, ...others });
  proxy.clock.now += 60_000;
  const key = await proxy.issue();
  const get = proxy.as(key);
  const query = queryBy(get);
  await until("the newest version to be seen", async () => (await versionOf(`${table}/version`, get)) === 4);
  return { proxy, key, get, query, left: () => proxy.left(key), [Symbol.asyncDispose]: proxy.stop };
}

const queryBy =
  (get: Ask) =>
  (body: object, headers: Record<string, string> = {}) =>
    get(
      `${table}/query`,
      { "content-type": "application/json; charset=utf-8", ...headers },
      { method: "POST", body: JSON.stringify(body) },
    );

const versionOf = async (path: string, get: Ask) => Number((await get(path)).headers["delta-table-version"]);
const linesOf = ({ text }: Answer) =>
  text
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
const filesOf = (answer: Answer): FileLine["file"][] => linesOf(answer).flatMap(({ file }) => file ?? []);
const pathOf = (url: string) => url.replace(/^https:\/\/api\.example\.org/, "");

function errorOf({ status, headers, text }: Answer): string {
  const { errorCode, message, ...rest } = JSON.parse(text);
  expect([headers["content-type"], rest, typeof message]).toEqual(["application/json", {}, "string"]);
  return `${status} ${errorCode}`;
}

let all: Awaited<ReturnType<typeof served>>;
beforeAll(async () => {
  all = await served();
});
afterAll(() => all?.proxy.stop());

// What needs no further version is in test/proxy/corpus.txt; which version is meant, and what is wrong with one, in
// test/snapshots/read/sharing/sharing.test.ts.
test("Delta Sharing gives the newest exported version, the one that is asked for, or the one of a time", async () => {
  const found = async (body: object) => {
    const answer = await all.query(body);
    const [, { metaData }, ...files] = linesOf(answer);
    const rows = files.map(({ file }) => JSON.parse(file.stats).numRecords);
    expect(files).toHaveLength(metaData.numFiles);
    expect(files.reduce((sum, { file }) => sum + file.size, 0)).toBe(metaData.size);
    expect(metaData.version).toBe(
      "version" in body || "timestamp" in body ? files[0].file.version : undefined,
    );
    return [Number(answer.headers["delta-table-version"]), rows.reduce((sum, each) => sum + each)];
  };
  expect(await found({})).toEqual([4, 60]);
  expect(await found({ version: 1 })).toEqual([1, 57]);
  expect(await found({ version: "3", later: [] })).toEqual([3, 59]);
  expect(await found({ timestamp: day(3) })).toEqual([3, 59]);
  expect(await found({ timestamp: "2026-02-02T23:59:59Z" })).toEqual([1, 57]);
  expect(await found({ timestamp: "2030-01-01T00:00:00Z" })).toEqual([4, 60]);
  const metadata = await all.get(`${table}/metadata?version=3`);
  expect(metadata.headers["delta-table-version"]).toBe("3");
  expect(linesOf(metadata)[1].metaData).toMatchObject({ version: 3, numFiles: 1 });
  const newest = linesOf(await all.get(`${table}/metadata`));
  expect(newest).toHaveLength(2);
  expect(newest[1].metaData.version).toBeUndefined();
  for (const answer of [await all.query({ version: 2 }), await all.get(`${table}/metadata?version=2`)])
    expect(errorOf(answer)).toBe("404 VERSION_NOT_FOUND");
  expect(await versionOf(`${table}/version?startingTimestamp=2026-02-01T00:00:01Z`, all.get)).toBe(3);
});

describe("the changes of the table", () => {
  const versionsIn = (answer: Answer) =>
    linesOf(answer)
      .slice(2)
      .map(({ add, cdf }) => (add ?? cdf).version);

  test("are those of the versions from one time to another, both included", async () => {
    await using own = await served({ changes: true });
    const asked = (query: string) => own.get(`${table}/changes?${query}`);
    const versions: [string, number[]][] = [
      [`startingTimestamp=${day(2)}&endingTimestamp=${day(3)}`, [2, 3]],
      ["startingTimestamp=2026-02-01T00:00:01Z&endingTimestamp=2026-02-03T23:59:59Z", [2, 3]],
      ["startingTimestamp=2026-02-03T00:00:01Z&endingTimestamp=2030-01-01T00:00:00Z", [4]],
      [`startingVersion=3&endingTimestamp=${day(3)}`, [3]],
      [`startingTimestamp=${day(3)}&endingVersion=4`, [3, 4]],
    ];
    for (const [query, expected] of versions) {
      const answer = await asked(query);
      expect([query, versionsIn(answer)]).toEqual([query, expected]);
      expect(answer.headers["delta-table-version"]).toBe(String(expected[0]));
    }
    const lines = linesOf(await asked(`startingTimestamp=2020-01-01T00:00:00Z&endingTimestamp=${day(2)}`));
    expect(lines.slice(2)).toMatchObject([
      { add: { version: 1, timestamp: Date.parse(day(1)) } },
      { cdf: { version: 2, timestamp: Date.parse(day(2)) } },
    ]);
    // No version lies between them.
    const between = "startingTimestamp=2026-02-02T01:00:00Z&endingTimestamp=2026-02-02T02:00:00Z";
    expect(errorOf(await asked(between))).toBe("400 INVALID_PARAMETER");
  });

  test("are served from a signed store only as the record was signed", async () => {
    const key = testKey();
    const trustedKeys = join(folder, "trusted.keys");
    await writeFile(trustedKeys, `${verifierText(key)}\n`);
    const signing = { key, trusted: [key] };
    await using own = await served({ changes: true, trustedKeys, signing });
    const { storage, logged } = own.proxy;
    const asked = (query: string) => own.get(`${table}/changes?${query}`);
    const hashOf = async (version: number) => (await readCommit(storage, version))!.changes!.hash;
    const [name, other] = [await hashOf(2), await hashOf(3)];
    const { digest: _, note: __, ...record } = (await readExported(storage, layout.exportedChanges, name))!;
    const signed = (await storage.get(layout.exportedChanges(name)))!;
    const { files } = (await readExported(storage, layout.exportedChanges, other))!;
    const stranger = signRecord(testKey("other.example"), `changes ${name}`);
    for (const sign of [undefined, stranger]) {
      await storage.put(layout.exportedChanges(name), seal({ ...record, files }, sign));
      const answer = await asked("startingVersion=1");
      expect(errorOf(answer)).toBe("404 VERSION_NOT_FOUND");
      expect(answer.json().message).toContain("What version 2 changed");
      expect(versionsIn(await asked("startingVersion=3"))).toEqual([3, 4]);
    }
    expect(logged.filter((line) => line.includes(layout.exportedChanges(name)))).not.toEqual([]);
    await storage.put(layout.exportedChanges(name), signed);
    expect(versionsIn(await asked("startingVersion=2&endingVersion=3"))).toEqual([2, 3]);
  });
});

// Other spellings are in test/proxy/corpus.txt.
describe("the address of a file", () => {
  const first = async (query = all.query) => filesOf(await query({ version: 1 }))[0]!;

  test("begins with API_URL, or the host of the request, and is of the file", async () => {
    const { url, id, size, expirationTimestamp } = await first();
    expect(url.startsWith("https://api.example.org/delta-sharing/files/")).toBe(true);
    expect(expirationTimestamp).toBe(Math.floor(all.proxy.clock.now / 1000 + 900) * 1000);
    const { status, body } = await all.proxy.get(pathOf(url));
    expect([status, body.length, sha256(body)]).toEqual([200, size, id]);
    await using other = await all.proxy.another({ apiUrl: undefined });
    const key = await other.issue();
    const { url: own } = await first(queryBy(other.as(key)));
    expect(own.startsWith("http://proxy.test/delta-sharing/files/")).toBe(true);
    // A request of HTTP/1.0 need not have one.
    for (const host of ["", "host:\r\n"]) {
      const fields = `${host}x-api-key: ${key}\r\ncontent-type: application/json\r\ncontent-length: 2`;
      const answer = await other.raw(`POST ${table}/query HTTP/1.0\r\n${fields}\r\n\r\n{}`);
      expect(answer).toMatch(/^HTTP\/1\.1 400 .*"errorCode":"BAD_REQUEST"/s);
    }
  });

  test("is good for 15 minutes, and for no other file", async () => {
    const [one, two] = filesOf(await all.query({}));
    const path = pathOf(one!.url);
    const refused = async (target: string) =>
      expect(errorOf(await all.proxy.get(target))).toBe("403 INVALID_FILE_ADDRESS");
    await refused(path.replace(one!.id, two!.id));
    await refused(path.replace(/sig=./, (text) => (text === "sig=A" ? "sig=B" : "sig=A")));
    all.proxy.clock.now += 899_000;
    expect((await all.proxy.get(path)).status).toBe(200);
    all.proxy.clock.now += 2_000;
    await refused(path);
  });

  test("dies with the key that was given it, and with no other key of the owner", async () => {
    const { url } = await first();
    const { url: own } = await first(queryBy(all.proxy.as(await all.proxy.issue())));
    expect((await all.proxy.get(pathOf(own))).status).toBe(200);
    const id = new URL(own).searchParams.get("key")!;
    await revokeKey(all.proxy.storage, id, new Date(all.proxy.clock.now));
    await until(
      "the revocation to be seen",
      // One that is being sent then is cut off.
      async () => (await all.proxy.get(pathOf(own)).catch(() => undefined))?.status === 401,
    );
    expect(errorOf(await all.proxy.get(pathOf(own)))).toBe("401 INVALID_API_KEY");
    expect((await all.proxy.get(pathOf(url))).status).toBe(200);
  });

  test("is counted to its key, a unit for every 256 KiB", async () => {
    const { url } = await first();
    const before = await all.left();
    const { headers } = await all.proxy.get(pathOf(url));
    expect([headers["x-ratelimit-remaining"], await all.left()]).toEqual([`${before - 1}`, before - 1]);
    const known = '"route":"/delta-sharing/files/:hash.parquet"';
    expect(all.proxy.logged.some((line) => line.includes(known))).toBe(true);
  });
});

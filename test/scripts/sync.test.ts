import { execFileSync } from "node:child_process";
import { open, readdir, readFile, rm, stat, truncate, utimes, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, type TestContext, test, vi } from "vitest";
import type { HistoricalMarket } from "../../schemas/records.ts";
import { CopyFolder } from "../../scripts/copy/copy-folder.ts";
import { parseNote } from "../../snapshots/format/note.ts";
import { hexOf, leafHash, nodeHash } from "../../snapshots/format/tree.ts";
import { rollback } from "../../snapshots/maintain/rollback.ts";
import { layout } from "../../snapshots/store/layout.ts";
import { ownerMark } from "../../snapshots/store/local-files.ts";
import { type SigningKey, verifierText } from "../../snapshots/trust/notes/note-keys.ts";
import { signatureLine, signCheckpoint } from "../../snapshots/trust/notes/signed-note.ts";
import { type Link, type Passed, type PassingAnswer, startLink } from "../helpers/http/link.ts";
import { takenUp } from "../helpers/http/live-feed.ts";
import { startTestProxy, type TestProxy } from "../helpers/http/proxy.ts";
import { until } from "../helpers/http/proxy-client.ts";
import { expectEnd, runCommand, scriptProcess } from "../helpers/publish/commands.ts";
import { inArchiveOrder, market, marketsOf, publishRecords } from "../helpers/publish/records.ts";
import { freePort } from "../helpers/servers/programs.ts";
import { testKey } from "../helpers/store/signing.ts";
import { mountSmallDisk } from "../helpers/store/small-disk.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

const folder = testFolder();
let proxy: TestProxy;
let link: Link;
/** What archive.ndjson must hold, by snapshot. */
const published = new Map<string, string>();
let copies = 0;
/** Has room for one copy of 120 markets, and not for a second beside it. */
const smallDisk = mountSmallDisk(400);

beforeAll(async () => {
  proxy = await startTestProxy({ empty: true });
  await writeFile(join(folder, "key"), `${await proxy.issue()}\n`);
  link = await startLink(proxy.port);
  await publish(archives.first);
});
afterAll(async () => {
  await link?.stop();
  await proxy?.stop();
});
afterEach(() => {
  link.alter = undefined;
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

/** Its texts look like other times, and one has a separator of lines to JavaScript, which is none to JSON. */
const corrected = (one: HistoricalMarket): HistoricalMarket => ({
  ...one,
  question: 'a trap:\u2028 ,"resolvedAt":"9999-01-01T00:00:00.000Z"',
  dimensions: one.dimensions.map((each) => ({
    ...each,
    references: [{ a: 1, resolvedAt: "9999-01-01T00:00:00.000Z" }],
  })),
});
const archives = {
  first: marketsOf(0, 120),
  /** Two withdrawn, two corrected, one moved to the time of another, and twenty new ones. */
  second: [
    ...marketsOf(2, 10),
    ...marketsOf(10, 12).map(corrected),
    ...marketsOf(12, 80),
    { ...market(80), resolvedAt: market(12).resolvedAt },
    ...marketsOf(81, 140),
  ],
};

const textOf = (markets: readonly HistoricalMarket[]) =>
  inArchiveOrder(markets)
    .map((each) => `${JSON.stringify(each)}\n`)
    .join("");

/** Publishes an archive, and waits until the service answers from it. Returns its snapshot. */
async function publish(markets: readonly HistoricalMarket[], bri = 700): Promise<string> {
  const { snapshotId } = await publishRecords(proxy.storage, markets, bri, { resume: true });
  published.set(snapshotId, textOf(markets));
  await takenUp(proxy, snapshotId);
  return snapshotId;
}

const newCopy = () => {
  copies += 1;
  return join(folder, `copy-${copies}`);
};

const argumentsFor = (copy: string, more: readonly string[] = [], url = link.url) => [
  ...["--url", url, "--key-file", "key", "--to", copy],
  ...more,
];

/** An option that is given again replaces the one before. */
async function sync(copy: string, more: readonly string[] = [], url = link.url) {
  const before = link.passed.length;
  const args = argumentsFor(copy, ["--json", ...more], url);
  const { code, stdout, stderr } = await runCommand("sync", args, { from: folder });
  const asked = link.passed.slice(before).map(({ target }) => target);
  return { code, report: JSON.parse(stdout || "{}"), stdout, stderr, asked };
}

/** The service no longer knows what a copy is of. */
function expireChanges(): void {
  const gone = problem(410, "SNAPSHOT_EXPIRED", "Snapshot gone: take a whole answer.");
  link.alter = (target) => (target.includes("/changes?") ? gone : undefined);
}

async function copyOfFirst() {
  const copy = newCopy();
  const first = await publish(archives.first);
  expect(await sync(copy)).toMatchObject({ code: 0, report: { how: "whole", received: 120, lines: 120 } });
  return { copy, first };
}

async function markOf(copy: string, owner: string): Promise<string> {
  const mark = join(copy, ".sync", `running-${owner}`);
  await writeFile(mark, String((await stat(join(copy, ".sync"))).ino));
  return mark;
}

async function exactly(copy: string): Promise<string> {
  const state = JSON.parse(await readFile(join(copy, "state.json"), "utf8"));
  const archive = await readFile(join(copy, "archive.ndjson"), "utf8");
  expect(archive === published.get(state.snapshotId)).toBe(true);
  expect(state.lines).toBe(archive.split("\n").length - 1);
  return state.snapshotId;
}

// Keys that open nothing, and refusals that touch no service, are in sessions/partners.txt.
describe("npm run sync", () => {
  test("makes a copy, asks two small questions while nothing is new, and follows changes, rollbacks and scores", async () => {
    const { copy, first } = await copyOfFirst();
    expect(await exactly(copy)).toBe(first);
    const asked = ["/api/v1/status", "/api/v1/usage"];
    expect(await sync(copy)).toMatchObject({ code: 0, report: { how: "unchanged" }, asked });

    const second = await publish(archives.second, 650);
    const update = await sync(copy);
    expect(update).toMatchObject({ code: 0, report: { how: "changes", received: 25, lines: 138 } });
    expect(update.asked.some((target) => target.startsWith("/api/v1/markets/historical"))).toBe(false);
    expect(await exactly(copy)).toBe(second);

    await rollback(proxy.storage, first, () => new Date("2026-03-02T00:00:00.000Z"));
    await takenUp(proxy, first);
    expect(await sync(copy)).toMatchObject({ code: 0, report: { how: "changes" } });
    expect(await exactly(copy)).toBe(first);
    const scores = await publish(archives.first, 666);
    expect(await sync(copy)).toMatchObject({ code: 0, report: { how: "changes", received: 0 } });
    expect(await exactly(copy)).toBe(scores);
  });

  test("takes the whole archive when the service no longer knows its snapshot, or the copy was changed", async () => {
    const { copy } = await copyOfFirst();
    await publish(archives.second);
    expireChanges();
    const expired = await sync(copy);
    expect(expired).toMatchObject({ code: 0, report: { how: "whole" } });
    expect(expired.stderr).toContain("Snapshot gone: take a whole answer. The whole archive is taken.");
    link.alter = undefined;

    const path = join(copy, "archive.ndjson");
    const text = await readFile(path, "utf8");
    // In a market that stays.
    await writeFile(path, text.replace(/Crypto(?!.*Crypto)/s, "Krypto"));
    const third = await publish(archives.first);
    expect(await sync(copy)).toMatchObject({ code: 0, report: { how: "whole" } });
    expect(await exactly(copy)).toBe(third);
    await truncate(path, 1000);
    expect(await sync(copy)).toMatchObject({ code: 0, report: { how: "whole" } });
    expect(await exactly(copy)).toBe(third);
  });

  test("accepts a copied folder, with links or files, and with the mark of a run elsewhere", async () => {
    const [twin, files] = [newCopy(), newCopy()];
    const { copy, first } = await copyOfFirst();
    const mark = await markOf(copy, ownerMark(process.ppid));
    execFileSync("cp", ["-r", copy, twin]);
    expect(await sync(twin)).toMatchObject({ code: 0, report: { how: "unchanged" } });
    expectEnd(await sync(copy), 2, mark);
    execFileSync("cp", ["-rL", twin, files]);
    expect(await sync(files)).toMatchObject({ code: 0, report: { how: "unchanged" } });
    await publish(archives.second);
    expect(await sync(files)).toMatchObject({ code: 0, report: { how: "changes" } });
    expect(await exactly(files)).not.toBe(first);
  });

  test("knows the mark of a run that was killed from that of one at work, at any hour", async () => {
    const { copy } = await copyOfFirst();
    const place = async (owner: string) => {
      const path = await markOf(copy, owner);
      const days = new Date(Date.now() - 50 * 3_600_000);
      await utimes(path, days, days);
      return path;
    };
    const living = ownerMark(process.ppid);
    // Its id has been used again.
    await place(living.replace(/\d+-$/, "1-"));
    expect(await sync(copy)).toMatchObject({ code: 0 });
    const path = await place(living);
    expectEnd(await sync(copy), 2, path);
    await rm(path);
    expect(await sync(copy)).toMatchObject({ code: 0 });
  });

  describe("beside the mark of another container, whose processes are not seen here,", () => {
    const day = 24 * 3_600_000;
    /** A folder with such a mark, made by a clock that differs, and with a part of a transfer. */
    const marked = async (ahead: number) => {
      const copy = newCopy();
      await (await CopyFolder.open(copy)).close();
      const mark = await markOf(copy, "ffffffff-1-");
      const renew = async (later = 0) => {
        const time = new Date(Date.now() + ahead + later);
        await utimes(mark, time, time);
      };
      await renew();
      const part = join(copy, ".sync", "work", "archive.ndjson");
      await writeFile(part, "{}\n");
      return { copy, mark, part, renew };
    };

    test.for([-2 * day, 0, 2 * day])(
      "takes over when two renewals were missed, by a clock of %d",
      async (ahead) => {
        const { copy, mark, part } = await marked(ahead);
        const stopped = await open(part, "a");
        const [waits, said]: [number[], string[]] = [[], []];
        const taken = await CopyFolder.open(copy, {
          wait: async (milliseconds) => waits.push(milliseconds),
          say: (line) => said.push(line),
        });
        expect(waits).toEqual([10_000, 10_000]);
        expect(said).toEqual([`waiting 20 s to see whether the sync of ${mark} still runs`]);
        expect(await readdir(join(copy, ".sync"))).not.toContain(basename(mark));
        // What came is kept, and a run that was only stopped writes elsewhere.
        await stopped.write("late");
        await stopped.close();
        expect(await readFile(part, "utf8")).toBe("{}\n");
        await taken.close();
      },
    );

    test.for([-2 * day, 0, 2 * day])(
      "leaves the folder to a run that renews it, by a clock of %d",
      async (ahead) => {
        const { copy, mark, renew } = await marked(ahead);
        let waits = 0;
        const wait = async () => {
          waits += 1;
          if (waits === 2) await renew(15_000);
        };
        await expect(CopyFolder.open(copy, { wait })).rejects.toThrow(`wait until it has ended (${mark})`);
        expect(await readdir(join(copy, ".sync"))).toContain(basename(mark));
      },
    );

    test("renews its own mark, and changes nothing once another has taken over", async () => {
      vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
      const copy = newCopy();
      const held = await CopyFolder.open(copy);
      const mark = join(copy, ".sync", `running-${ownerMark()}`);
      await utimes(mark, new Date(0), new Date(0));
      vi.advanceTimersByTime(10_000);
      while ((await stat(mark)).mtimeMs === 0) await setImmediate();
      await rm(mark);
      vi.advanceTimersByTime(10_000);
      const state = { snapshotId: "", commit: 1, archiveRoot: "", lines: 0, bytes: 0 };
      const index = { method: "", segments: [] };
      for (const change of [
        () => held.begin({ kind: "whole", snapshotId: "", cursor: "", count: 0 }),
        () => held.discard(),
        () => held.replace(state, index),
        () => held.note(state),
      ])
        await expect(change()).rejects.toThrow(`another sync has taken over ${copy}`);
      await held.close();
      expect(await readdir(join(copy, ".sync"))).toEqual(["work"]);
    });
  });

  test.skipIf(!smallDisk)("says on a full disk how much room a copy needs", async () => {
    const copy = join(smallDisk!, "copy");
    await publish(archives.first);
    await sync(copy);
    await publish(archives.second);
    expireChanges();
    expectEnd(await sync(copy), 5, /copy: cannot keep files there: ENOSPC.*takes about 0\.\d MB there.*--to/);
    await exactly(copy);
  });
});

describe("a service that cannot be asked", () => {
  type Alter = (answer: PassingAnswer) => PassingAnswer;
  const endless: Alter = (answer) => ({ ...answer, body: `${answer.body}${" ".repeat(2 ** 23)}` });
  const long: Alter = (answer) => ({ ...answer, headers: { long: "x".repeat(2 ** 17) } });
  const refused = "http://PLACE: The service cannot be reached: connect ECONNREFUSED PLACE\n";
  test.each<[string, Alter | undefined, string]>([
    ["fails", () => problem(500, "INTERNAL", "d"), ": t: d\n"],
    ["sends a /status without end", endless, "More than 8388608 bytes came"],
    ["sends headers without end", long, "Headers Overflow"],
    ["does not listen", undefined, refused],
  ])("because it %s is named with its address: exit 5", async (_what, answer, told) => {
    // No wait before it is asked again.
    vi.spyOn(Math, "random").mockReturnValue(0);
    link.alter = (_target, real) => answer?.(real);
    const place = answer ? new URL(link.url).host : `127.0.0.1:${await freePort()}`;
    const ended = await sync(newCopy(), [], `http://${place}`);
    expectEnd(ended, 5, told.replaceAll("PLACE", place), `http://${place}: `);
  });
});

const problem = (status: number, code: string, detail: string): PassingAnswer => ({
  status,
  headers: { "content-type": "application/problem+json" },
  body: JSON.stringify({ type: "t", title: "t", status, code, detail, requestId: "r" }),
});

describe("an answer", () => {
  // What else an answer may say of itself is the client's to judge: see test/proxy/client.
  const lies: [string, (answer: PassingAnswer) => PassingAnswer, RegExp][] = [
    [
      "lacks a line",
      (answer) => {
        const lines = answer.body.split(/(?<=\n)/).toSpliced(7, 1);
        return {
          ...answer,
          headers: { ...answer.headers, "x-count": `${lines.length}` },
          body: lines.join(""),
        };
      },
      /^The copy is not the archive of snapshot /m,
    ],
    [
      "is of another snapshot",
      (answer) => ({ ...answer, headers: { ...answer.headers, "x-snapshot-id": [...published.keys()][0]! } }),
      /^The (rows are of|changes lead to another) snapshot/m,
    ],
  ];

  describe("is found out, and the copy stays:", () => {
    let synced: Awaited<ReturnType<typeof copyOfFirst>>;
    let second: string;
    beforeAll(async () => {
      synced = await copyOfFirst();
      second = await publish(archives.second);
    });

    test.each(
      lies.flatMap(([what, lie, told]) =>
        (["historical", "changes"] as const).map((path) => [what, path, lie, told] as const),
      ),
    )("that %s, of /%s", async (_what, path, lie, told) => {
      const copy = newCopy();
      if (path === "changes") execFileSync("cp", ["-r", synced.copy, copy]);
      link.alter = (target, answer) => (target.includes(`/${path}`) ? lie(answer) : undefined);
      expectEnd(await sync(copy), 6, told);
      expect(await readdir(copy)).toEqual([".sync", "archive.ndjson", "state.json"]);
      if (path === "changes") expect(await exactly(copy)).toBe(synced.first);
      else await expect(readFile(join(copy, "archive.ndjson"))).rejects.toMatchObject({ code: "ENOENT" });
      link.alter = undefined;
      expect(await sync(copy)).toMatchObject({ code: 0 });
      expect(await exactly(copy)).toBe(second);
    });
  });

  test("that answers from before the copy's commit is found out", async () => {
    const copy = newCopy();
    await publish(archives.first);
    const old = await proxy.get("/api/v1/status");
    await publish(archives.second);
    await sync(copy);
    const snapshot = await exactly(copy);
    link.alter = (target, answer) => (target.endsWith("/status") ? { ...answer, body: old.text } : undefined);
    expectEnd(await sync(copy), 6, "never go back");
    expect(await exactly(copy)).toBe(snapshot);
  });
});

// A run waits a second before it asks again what is behind.
describe.concurrent("--trusted-key", () => {
  /** A service of its own, that a key signs for. The run of a copy presents a key of it, and trusts that one. */
  async function signedService({ onTestFinished }: TestContext, key = testKey()) {
    const service = await startTestProxy({ empty: true, pollSeconds: 0.1 });
    const name = `signed-${service.port}`;
    onTestFinished(() => service.stop());
    await writeFile(join(folder, `${name}-key`), await service.issue());
    await writeFile(join(folder, `${name}.pub`), `# of the publisher\n${verifierText(key)}\n`);
    const trusting = ["--trusted-key", `${name}.pub`];
    return {
      service,
      run(to: string, url = `http://127.0.0.1:${service.port}`, trusted = trusting) {
        const given = argumentsFor(to, ["--key-file", `${name}-key`, ...trusted], url);
        return runCommand("sync", given, { from: folder });
      },
      async publish(markets: readonly HistoricalMarket[], choices: { by?: SigningKey; over?: number } = {}) {
        const { by = key, over } = choices;
        const signing = { key: by, over };
        const { snapshotId } = await publishRecords(service.storage, markets, 700, { resume: true, signing });
        published.set(snapshotId, textOf(markets));
        await takenUp(service, snapshotId);
        return snapshotId;
      },
      /** A link to it whose answers can be altered. */
      async altered() {
        const altering = await startLink(service.port);
        onTestFinished(() => altering.stop());
        return altering;
      },
    };
  }

  test("takes up what the key signed, and nothing else, behind a cache that is late for a moment", async (context) => {
    const signed = await signedService(context);
    const stranger = testKey("prs.example/scores", "another");
    const copy = newCopy();
    const first = await signed.publish(archives.first);
    // The second run notes the checkpoint in the state that the first one left.
    for (const trusted of [[], undefined, undefined])
      expect(await signed.run(copy, undefined, trusted)).toMatchObject({ code: 0 });
    expect(await exactly(copy)).toBe(first);
    await signed.publish(archives.second, { by: stranger, over: 1 });
    expectEnd(await signed.run(copy), 6, "signed");
    expect(await exactly(copy)).toBe(first);
    const third = await signed.publish(marketsOf(0, 130), { over: 2 });
    expect(await signed.run(copy)).toMatchObject({ code: 0 });
    expect(await exactly(copy)).toBe(third);
    const old = String(await signed.service.storage.get(layout.logCheckpointOf(1)));
    const late = await signed.altered();
    late.alter = (target, answer) => {
      if (!target.endsWith("/checkpoint")) return undefined;
      late.alter = () => undefined;
      return { ...answer, body: old };
    };
    expect(await signed.run(copy, late.url)).toMatchObject({ code: 0, stderr: "" });
    expect(await exactly(copy)).toBe(third);
  });

  test("takes up no snapshot that the signed log has left behind, though the service says that it is current", async (context) => {
    const signed = await signedService(context);
    const old = await signed.altered();
    const copy = newCopy();
    const said = new Map<string, PassingAnswer>();
    const pathOf = (target: string) => target.replace(/\?.*/, "");
    old.alter = (target, answer) => {
      said.set(pathOf(target), answer);
      return undefined;
    };
    await signed.publish(archives.first);
    expect(await signed.run(copy, old.url)).toMatchObject({ code: 0 });
    const second = await signed.publish(archives.second);
    const lies = [
      ["/api/v1/status", 5, "log ends with commit 2, and the service answers from commit 1."],
      ["/api/v1/markets/historical", 6, "The rows are of snapshot"],
    ] as const;
    for (const [path, code, told] of lies) {
      old.alter = (target) => (pathOf(target) === path ? said.get(path) : undefined);
      const another = newCopy();
      expectEnd(await signed.run(another, old.url), code, told);
      await expect(readFile(join(another, "state.json"))).rejects.toMatchObject({ code: "ENOENT" });
    }
    expect(await signed.run(copy)).toMatchObject({ code: 0 });
    expect(await exactly(copy)).toBe(second);
  });

  test("keeps the copy when commits are taken away and others signed in their place", async (context) => {
    const signed = await signedService(context);
    const { storage } = signed.service;
    const copy = newCopy();
    const publishAt = (bri: number) =>
      publishRecords(storage, archives.second, bri, {
        signing: { key: testKey() },
        now: () => new Date(Date.parse("2026-03-01T00:00:00.000Z") + bri * 1_000),
      });
    await publishAt(700);
    const { snapshotId } = await publishAt(701);
    await takenUp(signed.service, snapshotId);
    expect(await signed.run(copy)).toMatchObject({ code: 0 });
    const kept = await readFile(join(copy, "state.json"), "utf8");
    const seen = String(await storage.get(layout.logCheckpoint));
    expect(JSON.parse(kept)).toMatchObject({ commit: 2, checkpoint: seen });

    // A proxy that was running would take up none of it. One that begins anew remembers nothing.
    const records = [layout.logCheckpoint, layout.logCheckpointOf(2), layout.checked];
    for (const key of [layout.commit(2), ...records]) await storage.delete(key);
    await publishAt(702);
    const fresh = await signed.service.another();
    const ended = await signed.run(copy, `http://127.0.0.1:${fresh.port}`);
    await fresh.stop();
    expectEnd(ended, 6, /does not go on .*: 2 commits with root/);
    expect(await readFile(join(copy, "state.json"), "utf8")).toBe(kept);
    const now = String(await storage.get(layout.logCheckpoint));
    expect(await readFile(join(copy, "forked-log.txt"), "utf8")).toBe(`${seen}\n${now}`);
  });

  test("tells of a fork behind resumed changes, and takes no archive before", async (context) => {
    const key = testKey();
    const signed = await signedService(context, key);
    const [copy, forking] = [newCopy(), await signed.altered()];
    const first = await signed.publish(archives.first);
    expect(await signed.run(copy)).toMatchObject({ code: 0 });
    const second = await signed.publish(archives.second);
    let broken = false;
    forking.alter = (target, answer) => {
      if (!target.includes("/changes?")) return undefined;
      if (broken) return problem(500, "INTERNAL", "d");
      broken = true;
      return { ...answer, body: answer.body.split(/(?<=\n)/, 3).join("") };
    };
    expect(await signed.run(copy, forking.url)).toMatchObject({ code: 5 });

    // The same commit, in a log with another first one.
    forking.alter = (target, answer) => {
      if (!target.includes("/proof")) return undefined;
      const { proof, ...told } = JSON.parse(answer.body);
      const other = leafHash(Buffer.from("another"));
      const head = nodeHash(other, leafHash(Buffer.from(told.entry)));
      const checkpoint = signCheckpoint({ key }, { size: 2, head });
      const forked = { ...told, checkpoint, proof: { ...proof, inclusion: [hexOf(other)] } };
      return { ...answer, body: JSON.stringify(forked) };
    };
    forking.passed.length = 0;
    expectEnd(await signed.run(copy, forking.url), 6, /^The log does not go on .*, now\. Somebody took/m);
    expect(forking.passed.some(({ target }) => target.includes("/historical"))).toBe(false);
    expect(await exactly(copy)).toBe(first);
    expect(await signed.run(copy)).toMatchObject({ code: 0 });
    expect(await exactly(copy)).toBe(second);
  });

  test("with a policy takes up what its witness cosigned", async (context) => {
    const [ours, witness] = [testKey(), testKey("witness.example/w", "", "cosignature-ed25519")];
    const signed = await signedService(context);
    const copy = newCopy();
    const { storage } = signed.service;
    const { snapshotId } = await publishRecords(storage, archives.first, 700, { signing: { key: ours } });
    published.set(snapshotId, textOf(archives.first));
    const note = String(await storage.get(layout.logCheckpoint));
    const line = signatureLine(witness, parseNote(note).text);
    await storage.put(layout.logCheckpoint, Buffer.from(`${note}${line}\n`));
    await takenUp(signed.service, snapshotId);
    const known = `log ${verifierText(ours)}\nwitness w ${verifierText(witness)}\n`;
    await writeFile(join(folder, "sync.policy"), `${known}quorum w\n`);
    expect(await signed.run(copy, undefined, ["--trust-policy", "sync.policy"])).toMatchObject({ code: 0 });
    expect(await exactly(copy)).toBe(snapshotId);
  });

  test("wants a signature where there is none", async () => {
    await publish(archives.first);
    await writeFile(join(folder, "any.pub"), `${verifierText(testKey())}\n`);
    const copy = newCopy();
    const run = () => sync(copy, ["--trusted-key", "any.pub"]);
    const unsigned = { code: 6, stderr: expect.stringContaining("nobody signed the log") };
    // No unit is spent on rows.
    expect(await run()).toMatchObject({ ...unsigned, asked: ["/api/v1/status", "/api/v1/checkpoint"] });
    await sync(copy);
    expect(await run()).toMatchObject(unsigned);
  });
});

describe("a sync that is killed", () => {
  test("goes on behind the lines that have come", async () => {
    const copy = newCopy();
    const snapshot = await publish(archives.second);
    const killed = Promise.withResolvers<void>();
    const rows = ({ target }: Passed) => target.includes("/historical");
    link.cut = (asked) => (rows(asked) ? 70_000 : undefined);
    link.after = (asked) => rows(asked) && killed.promise;
    const work = join(copy, ".sync", "work", "archive.ndjson");
    const size = async () => (await readFile(work).catch(() => "")).length;
    await scriptProcess("sync", argumentsFor(copy), { from: folder }, (child) => {
      until("lines to be on the disk", async () => (await size()) > 40_000).then(() => child.kill("SIGKILL"));
    });
    killed.resolve();
    link.cut = () => undefined;
    const rest = await sync(copy);
    expect(rest).toMatchObject({ code: 0, report: { how: "whole", lines: 138 } });
    expect(rest.report.received).toBeLessThan(120);
    expect(await exactly(copy)).toBe(snapshot);
    // Nothing is left of the run that was killed.
    expect((await readdir(join(copy, ".sync"))).filter((name) => name.startsWith("copy-"))).toHaveLength(1);
  });
});

describe("--follow", () => {
  test("takes up every snapshot as it is published", async () => {
    const copy = newCopy();
    await publish(archives.first, 701);
    let stop = () => {};
    const args = argumentsFor(copy, ["--follow"], `http://127.0.0.1:${proxy.port}`);
    const ended = scriptProcess("sync", args, { from: folder }, (child) => {
      stop = () => child.kill("SIGTERM");
    });
    for (const markets of [archives.second, archives.first]) {
      const snapshot = await publish(markets, 702);
      await until("the copy to follow", async () => (await exactly(copy).catch(() => "")) === snapshot);
    }
    stop();
    await ended;
  });

  const failing = (code: string, retryAfter?: string) => {
    const { headers, ...answer } = problem(500, code, "d");
    return { ...answer, headers: { ...headers, ...(retryAfter && { "retry-after": retryAfter }) } };
  };
  test.each<[string, PassingAnswer | undefined, string]>([
    ["the feed names what the service does not give yet", undefined, "news asked 60s news asked 60s news"],
    ["the service fails", failing("INTERNAL"), "60s asked 60s"],
    ["the service says when it wants to be asked", failing("INTERNAL", "7200"), "7200s asked 7200s"],
    ["the service wants it in years", failing("INTERNAL", "1e9"), "86400s asked 86400s"],
  ])("waits, and spends no units meanwhile, while %s", async (_what, answer, expected) => {
    const { copy } = await copyOfFirst();
    const happened: string[] = [];
    const wait = globalThis.setTimeout;
    const passed = (work: (of?: unknown) => void, milliseconds = 0, of?: unknown) => {
      if (![60, 600, 7_200, 86_400].includes(milliseconds / 1000)) return wait(work, milliseconds, of);
      return wait(() => {
        happened.push(`${milliseconds / 1000}s`);
        work();
      });
    };
    vi.spyOn(globalThis, "setTimeout").mockImplementation(passed as typeof setTimeout);
    vi.stubGlobal(
      "WebSocket",
      class extends EventTarget {
        constructor() {
          super();
          queueMicrotask(() => this.dispatchEvent(new Event("open")));
        }
        send() {
          happened.push("news");
          const data = JSON.stringify({ snapshotId: "0".repeat(64) });
          this.dispatchEvent(new MessageEvent("message", { data }));
        }
        close() {}
      },
    );
    link.alter = (target) => {
      if (!target.endsWith("/status")) return undefined;
      happened.push("asked");
      const enough = happened.length > expected.split(" ").length;
      return enough ? problem(401, "INVALID_API_KEY", "d") : answer;
    };
    expectEnd(await runCommand("sync", argumentsFor(copy, ["--follow"]), { from: folder }), 2);
    expect(happened.slice(1, -1).join(" ")).toBe(expected);
  });
});

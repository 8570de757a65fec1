import { afterEach, describe, expect, test } from "vitest";
import { Checked } from "../../../schemas/store/stored-objects.ts";
import { layout } from "../../../snapshots/store/layout.ts";
import { newestCommit } from "../../../snapshots/store/log/commits.ts";
import { unseal } from "../../../snapshots/store/objects.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";
import { type ArchiveProxy, startArchiveProxy } from "../../helpers/http/archive-proxy.ts";
import { snapshotCommand } from "../../helpers/publish/commands.ts";
import { inArchiveOrder, publishRecords, recordsAfter } from "../../helpers/publish/records.ts";
import {
  type Content,
  contents,
  publishContent,
  rollBack,
  storeOf,
} from "../../helpers/store/rollback-store.ts";
import { testFolder } from "../../helpers/store/test-folder.ts";

const folder = testFolder();
let proxy: ArchiveProxy | undefined;

afterEach(async () => {
  await proxy?.stop();
  proxy = undefined;
});

describe("walks over a rollback", () => {
  test("go on in the snapshot rolled back to, and are 410 with a place to resume in withdrawn ones", async () => {
    const storage = await storeOf(folder, "A");
    proxy = await startArchiveProxy(storage);
    const cursors: { cursor: string; last: { resolvedAt: string; id: string } }[] = [];
    const begin = async () => {
      await proxy!.refresh();
      const { nextCursor, markets } = await proxy!.page({ pageSize: 25 });
      cursors.push({ cursor: nextCursor!, last: markets.at(-1)! });
    };
    await begin();
    for (const name of ["B", "C"] as const) {
      await publishContent(storage, name);
      await begin();
    }
    const [inA, inB, inC] = cursors as [(typeof cursors)[0], (typeof cursors)[0], (typeof cursors)[0]];
    const totals = async () =>
      Promise.all(cursors.map(async ({ cursor }) => (await proxy!.get({ cursor })).status));
    await rollBack(storage, 1);
    // Until the proxy looks, nothing has happened.
    expect(await totals()).toEqual([200, 200, 200]);
    await proxy.refresh();
    expect(await totals()).toEqual([200, 410, 410]);
    expect((await proxy.page({ cursor: inA.cursor })).total).toBe(120);
    for (const { cursor, last } of [inB, inC]) {
      const problem = await proxy.problem({ cursor });
      expect(problem).toMatchObject({ status: 410, code: "CURSOR_EXPIRED" });
      const expected = recordsAfter(inArchiveOrder(contents.A[0]), last).slice(0, 25);
      const { markets } = await proxy.page({ cursor: problem.resumeCursor! });
      expect(markets.map(({ id }) => id)).toEqual(expected.map(({ id }) => id));
    }
    await begin();
    await publishContent(storage, "D", true);
    await proxy.refresh();
    // The rollback's own walk goes on; what it withdrew stays withdrawn.
    expect(await totals()).toEqual([200, 410, 410, 200]);
  });
});

describe("checked.json", () => {
  const checkedIn = async (storage: Storage) =>
    unseal(layout.checked, (await storage.get(layout.checked))!, Checked);
  const at = (day: number) => new Date(Date.UTC(2026, 3, day));

  test("is renewed by every run that succeeds, not by others nor by a rollback, and the status shows it", async () => {
    const storage = await storeOf(folder);
    const run = (name: Content, day: number, resume = false) => {
      const [markets, bri] = contents[name];
      return publishRecords(storage, markets, bri, { resume, now: () => at(day) });
    };
    await run("A", 1);
    proxy = await startArchiveProxy(storage);
    const expectChecked = async (day: number, commit: number, outcome: string) => {
      const checkedAt = at(day).toISOString();
      expect(await checkedIn(storage)).toMatchObject({ checkedAt, commit, outcome });
      await proxy!.refresh();
      const answer = await fetch(new URL("/api/v1/status", proxy!.address));
      const newest = await newestCommit(storage);
      expect(await answer.json()).toMatchObject({
        checkedAt,
        commit: newest?.entry.commit,
        snapshotId: newest?.entry.snapshotId,
        publishedAt: newest?.entry.publishedAt,
      });
    };
    await expectChecked(1, 1, "published");
    await run("A", 2);
    await expectChecked(2, 1, "unchanged");
    await run("B", 3);
    await expectChecked(3, 2, "published");
    await rollBack(storage, 1);
    await expectChecked(3, 2, "published");
    await expect(run("B", 4)).rejects.toMatchObject({ code: "PUBLISHING_ON_HOLD" });
    await expectChecked(3, 2, "published");
    await run("B", 5, true);
    await expectChecked(5, 4, "published");
  });
});

describe("npm run snapshot -- rollback", () => {
  test("rolls back, shows it in the list, holds publishing, and says how to go on", async () => {
    const { location } = await storeOf(folder, "A", "B", "C");
    const run = (args: string) =>
      snapshotCommand([...args.split(" "), "--store", location], { from: folder });
    const done = await run("rollback 1");
    expect(done.code).toBe(0);
    expect(done.stdout).toMatch(/^Commit 4 has snapshot [0-9a-f]{64} again\. Publishing is on hold until/);
    const list = (await run("list")).stdout.trimEnd().split("\n");
    const states = list.map((line) => line.split("  ").slice(6).join(""));
    expect(list.map((line) => line.split("  ")[0])).toEqual(["4", "3", "2", "1"]);
    expect(states).toEqual(["rollback", "withdrawn", "withdrawn", ""]);
    const again = await run("rollback 2 --json");
    expect(JSON.parse(again.stdout)).toMatchObject({ commit: 5, hold: true });
    expect((await run("list")).stdout).toMatch(/^4 {2}.* rollback, withdrawn$/m);
    expect(await run("rollback 77")).toMatchObject({ code: 2, stdout: "" });
    expect(await run("rollback")).toMatchObject({ code: 2, stdout: "" });
    expect((await run("verify")).code).toBe(0);
  });
});

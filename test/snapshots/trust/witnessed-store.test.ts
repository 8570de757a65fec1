import { afterAll, describe, expect, test } from "vitest";
import { layout } from "../../../snapshots/store/layout.ts";
import { newestCommit } from "../../../snapshots/store/log/commits.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";
import type { Signing } from "../../../snapshots/trust/log/believe.ts";
import { parsePolicy, verifierText } from "../../../snapshots/trust/notes/note-keys.ts";
import { openNote } from "../../../snapshots/trust/notes/signed-note.ts";
import { judgeNote, Trust } from "../../../snapshots/trust/trust.ts";
import { Witnesses } from "../../../snapshots/trust/witnesses.ts";
import { verify } from "../../../snapshots/verify/verify.ts";
import { market, publishRecords } from "../../helpers/publish/records.ts";
import { findWitness, startWitness, type TestWitness } from "../../helpers/servers/witness.ts";
import { cosignersIn, policyOfTwo, testKey } from "../../helpers/store/signing.ts";
import { aroundCalls, memoryStorage } from "../../helpers/store/storages.ts";

// What a publisher and its witnesses make of one store. Each test has a log, and so an origin, of its own.

type Objects = Map<string, Buffer>;
const records = [market(1), market(2)];
const kinds = ["ed25519", "ed25519", "ml-dsa-44"] as const;
/** Milliseconds: also on a busy machine, who runs answers. */
const patience = 590_000;
const programs = findWitness();

describe.skipIf(!programs)("a store with three real witnesses", () => {
  const running: TestWitness[] = [];
  afterAll(() => Promise.all(running.map((witness) => witness.stop())));

  /** A publisher with witnesses, of which two must cosign. A new one is made for each run, as by each process. */
  async function publisher(name: string) {
    const key = testKey(name);
    const cosigner = testKey(name, "", "ml-dsa-44");
    const log = { origin: name, vkeys: [verifierText(key), verifierText(cosigner)] };
    const witnesses = await Promise.all(
      kinds.map((kind, index) => startWitness(programs!, `witness.example/${index}`, log, kind)),
    );
    running.push(...witnesses);
    const policy = parsePolicy(Buffer.from(policyOfTwo(key, witnesses)), "policy");
    const signing = (): Signing => ({ key, cosigner, witnesses: new Witnesses(policy, patience) });
    const publish = (storage: Storage, bri: number, how: Signing = signing()) =>
      publishRecords(storage, records, bri, { signing: how });
    return { key, policy, witnesses, publish };
  }

  const noteAt = (objects: Objects, key: string) => String(objects.get(key));
  const cosigned = (witnessed: readonly { name: string }[]) =>
    witnessed.map((each) => ("time" in each ? each.name : `not ${each.name}`));

  test("carries what they cosigned; one that is down costs no commit, and is asked again by the next run", async () => {
    const { key, policy, witnesses, publish } = await publisher("prs.example/grows");
    const objects: Objects = new Map();
    const storage = memoryStorage(objects);
    // No checkpoint is shown before those who answer have cosigned it.
    const shown: number[] = [];
    const watched = aroundCalls(storage, (work, { key }, body) => {
      if (body && key.startsWith(layout.logCheckpoint))
        shown.push(cosignersIn(policy, String(Buffer.from(body))).length);
      return work();
    });
    expect(cosigned((await publish(watched, 601)).witnessed)).toEqual(["w0", "w1", "w2"]);
    expect(shown).toEqual([3, 3]);
    await witnesses[2]!.kill();
    const second = await publish(storage, 602);
    expect(second).toMatchObject({ outcome: "published", commit: 2 });
    expect(cosigned(second.witnessed)).toEqual(["w0", "w1", "not w2"]);
    expect(second.witnessed[2]).toMatchObject({ fault: expect.stringContaining("cannot be asked") });
    for (const at of [layout.logCheckpoint, layout.logCheckpointOf(2)]) {
      const judged = judgeNote(policy, noteAt(objects, at));
      expect(judged.lacking).toBeUndefined();
      expect(openNote(judged.note, [key]).signers).toEqual([key]);
      expect(cosignersIn(policy, judged.note).map(([name]) => name)).toEqual(["w0", "w1"]);
    }

    await witnesses[2]!.start();
    const before = noteAt(objects, layout.logCheckpoint);
    const again = await publish(storage, 602);
    expect(again).toMatchObject({ outcome: "unchanged", commit: 2 });
    expect(cosigned(again.witnessed)).toEqual(["w0", "w1", "w2"]);
    const after = noteAt(objects, layout.logCheckpoint);
    // The log's own two signatures and those of two witnesses stay as they were.
    expect(after.startsWith(before)).toBe(true);
    expect(after.split("\n— ")).toHaveLength(6);
    expect(noteAt(objects, layout.logCheckpointOf(2))).toBe(after);
    await publish(storage, 602);
    expect(noteAt(objects, layout.logCheckpoint)).toBe(after);

    const { faults } = await verify(storage, () => {}, { trust: new Trust(policy) });
    expect(faults).toEqual([]);
    // Two of three are enough. With one the newest is none that this policy counts, and others before it may lack what
    // they do.
    const short = after
      .split("\n")
      .filter((line) => !/^— witness.example\/[12]/.test(line))
      .join("\n");
    for (const at of [layout.logCheckpoint, layout.logCheckpointOf(2)]) objects.set(at, Buffer.from(short));
    expect((await verify(storage, () => {}, { trust: new Trust(policy) })).faults).toEqual([
      {
        key: layout.logCheckpoint,
        reason: "the quorum two is not reached: w0 cosigned; w1, w2 did not: publish again",
      },
    ]);
  });

  test("that was set back is known by its witnesses, whatever it has forgotten itself", async () => {
    const { witnesses, publish, key } = await publisher("prs.example/set-back");
    const objects: Objects = new Map();
    await publish(memoryStorage(objects), 601);
    const old = new Map(objects);
    await publish(memoryStorage(objects), 602);

    const refused = { code: "UNTRUSTED_PREDECESSOR", message: expect.stringContaining("witness w") };
    const storage = memoryStorage(new Map(old));
    await expect(publish(storage, 603)).rejects.toThrow(
      /witness w\d has seen a log with commit 2, which the log does not lead to; its newest commit is 1/,
    );
    // Without any checkpoint it is the same: they are shown the empty tree.
    for (const at of [layout.logCheckpoint, layout.logCheckpointOf(1)]) await storage.delete(at);
    await expect(publish(storage, 603)).rejects.toMatchObject(refused);
    expect((await newestCommit(storage))!.entry.commit).toBe(1);
    // As long as one of them remembers.
    await Promise.all(witnesses.slice(0, 2).map((witness) => witness.kill()));
    await expect(publish(storage, 603)).rejects.toThrow(/witness w2 has seen a log with commit 2/);

    // Another face of the log is shown while nobody can say so, and noticed as soon as one can.
    await witnesses[2]!.kill();
    const forked = await publish(storage, 603);
    expect([forked.commit, cosigned(forked.witnessed)]).toEqual([2, ["not w0", "not w1", "not w2"]]);
    await witnesses[1]!.start();
    const told =
      /witness w1 has seen another log with commit 2, which the log does not lead to; its newest commit is 2/;
    await expect(publish(storage, 604)).rejects.toThrow(told);
    expect((await newestCommit(storage))!.entry.commit).toBe(2);
    expect(witnesses[1]!.seen(key.name).size).toBe(2);
  });
});

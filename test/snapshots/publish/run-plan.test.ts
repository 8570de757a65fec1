import { expect, test } from "vitest";
import type { CommitEntry } from "../../../schemas/store/stored-objects.ts";
import { planRun, type RunFacts, type RunPlan } from "../../../snapshots/publish/commit-snapshot.ts";

const manifest = { hash: "b".repeat(64), bytes: 1 };
const current = { entry: { snapshotId: "a" } as CommitEntry, manifest, hold: false };
const whole = { complete: true, unindexed: 0 };
const same = { snapshotId: "a", manifestHash: "other files, the same markets" };
const facts: RunFacts = { current, previous: whole, built: same, signed: true, dryRun: false };

const cases: [string, Partial<RunFacts>, RunPlan["reasons"]][] = [
  ["the same content", {}, []],
  ["an empty store", { current: undefined, previous: undefined, signed: false }, ["first"]],
  ["other content", { built: { ...same, snapshotId: "c" } }, ["content"]],
  ["a rollback's hold that the operator ends", { current: { ...current, hold: true } }, ["hold"]],
  ["lost objects that get other names", { previous: { complete: false, unindexed: 0 } }, ["objects"]],
  ["a lost manifest that gets another name", { previous: undefined }, ["objects"]],
  ["segments without a column", { previous: { complete: true, unindexed: 2 } }, ["index"]],
  ["a commit without this run's signature", { signed: false }, ["signature"]],
  [
    "all at once",
    {
      current: { ...current, hold: true },
      previous: { complete: false, unindexed: 1 },
      built: { ...same, snapshotId: "c" },
      signed: false,
    },
    ["content", "hold", "index", "signature"],
  ],
];

test.each(cases)("the reasons for a commit after %s", (_, changed, reasons) => {
  const outcome = reasons.length > 0 ? "published" : "unchanged";
  const plan = { outcome, reasons, keepsManifest: reasons.length === 0 };
  expect(planRun({ ...facts, ...changed })).toEqual(plan);
  // A dry run decides alike.
  expect(planRun({ ...facts, ...changed, dryRun: true })).toEqual({ ...plan, outcome: "dry-run" });
});

test.each<[string, RunFacts["previous"]]>([
  ["objects", { complete: false, unindexed: 0 }],
  ["the manifest", undefined],
])("a run that makes %s again with the same bytes keeps the commit, and writes them", (_, previous) => {
  const built = { snapshotId: "a", manifestHash: manifest.hash };
  const plan: RunPlan = { outcome: "unchanged", reasons: [], keepsManifest: false };
  expect(planRun({ ...facts, previous, built })).toEqual(plan);
});

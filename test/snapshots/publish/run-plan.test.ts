import { expect, test } from "vitest";
import type { CommitEntry } from "../../../schemas/store/stored-objects.ts";
import { type RunFacts, staysCurrent } from "../../../snapshots/publish/commit-snapshot.ts";

const manifest = { hash: "b".repeat(64), bytes: 1 };
const current = { entry: { snapshotId: "a" } as CommitEntry, manifest, hold: false };
const whole = { complete: true, unindexed: 0 };
const same = { snapshotId: "a", manifestHash: "other files, the same markets" };
const facts: RunFacts = { current, previous: whole, built: same, signed: true };

const cases: [string, Partial<RunFacts>][] = [
  ["an empty store", { current: undefined, previous: undefined, signed: false }],
  ["other content", { built: { ...same, snapshotId: "c" } }],
  ["a rollback's hold that the operator ends", { current: { ...current, hold: true } }],
  ["lost objects that get other names", { previous: { complete: false, unindexed: 0 } }],
  ["a lost manifest that gets another name", { previous: undefined }],
  ["segments without a column", { previous: { complete: true, unindexed: 2 } }],
  ["a commit without this run's signature", { signed: false }],
];

test.each(cases)("a commit is made after %s", (_, changed) => {
  expect(staysCurrent({ ...facts, ...changed })).toBe(false);
});

const remade = { snapshotId: "a", manifestHash: manifest.hash };

test.each<[string, Partial<RunFacts>]>([
  ["has the same content", {}],
  ["makes objects again with the same bytes", { previous: { complete: false, unindexed: 0 }, built: remade }],
  ["makes the manifest again with the same bytes", { previous: undefined, built: remade }],
])("a run that %s keeps the commit", (_, changed) => {
  expect(staysCurrent({ ...facts, ...changed })).toBe(true);
});

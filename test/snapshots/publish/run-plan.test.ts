import { expect, test } from "vitest";
import type { Commit } from "../../../schemas/store/stored-objects.ts";
import { staysCurrent } from "../../../snapshots/publish/commit-snapshot.ts";
import type { Before } from "../../../snapshots/publish/previous-snapshot.ts";
import { testKey } from "../../helpers/store/signing.ts";

type Run = Parameters<typeof staysCurrent>;

const manifest = { hash: "b".repeat(64), bytes: 1 };
const current = { entry: { commit: 1, snapshotId: "a" }, manifest, hold: false } as Commit;
const whole = { complete: true, unindexed: 0 };
const beforeOf = (newest: Commit | undefined, previous: Partial<Before["previous"]>) =>
  ({ log: { newest }, previous }) as Before;
const builtOf = (snapshotId: string, hash: string) =>
  ({ entry: { snapshotId }, ref: { hash, bytes: 1 } }) as Run[1];
const same = builtOf("a", "other files, the same markets");

const cases: [string, ...run: Run][] = [
  ["an empty store", beforeOf(undefined, undefined), same, {}],
  ["other content", beforeOf(current, whole), builtOf("c", same.ref.hash), {}],
  ["a rollback's hold that the operator ends", beforeOf({ ...current, hold: true }, whole), same, {}],
  ["lost objects that get other names", beforeOf(current, { ...whole, complete: false }), same, {}],
  ["a lost manifest that gets another name", beforeOf(current, undefined), same, {}],
  ["segments without a column", beforeOf(current, { ...whole, unindexed: 2 }), same, {}],
  ["a commit without this run's signature", beforeOf(current, whole), same, { key: testKey() }],
];

test.each(cases)("a commit is made after %s", (_, ...run) => {
  expect(staysCurrent(...run)).toBe(false);
});

const remade = builtOf("a", manifest.hash);

test.each<[string, ...run: Run]>([
  ["has the same content", beforeOf(current, whole), same, {}],
  ["makes objects again with the same bytes", beforeOf(current, { ...whole, complete: false }), remade, {}],
  ["makes the manifest again with the same bytes", beforeOf(current, undefined), remade, {}],
])("a run that %s keeps the commit", (_, ...run) => {
  expect(staysCurrent(...run)).toBe(true);
});

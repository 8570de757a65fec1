import fc from "fast-check";
import type { HistoricalMarket } from "../../../schemas/records.ts";
import { market } from "./records.ts";

/** A market of a history: which one, when it was resolved, and how it was corrected. */
interface Choice {
  index: number;
  hour: number;
  version: number;
}

/** Labels and texts that could be taken for something else in a line of an answer. */
const hostile = [
  "Yes",
  "]}",
  '"}\n{"op":"delete"',
  "a\\nb",
  ",\n",
  "\u2028",
  "é",
  "e\u0301",
  "__proto__",
  '{"id":"',
];

/** What happens in a history. */
export type Event =
  | { kind: "publish"; edits: Edit[]; dropped: number[] }
  | { kind: "rollback"; to: number }
  | { kind: "collect"; commit: number; records: boolean };
type Edit = Choice;

/** Few markets and few times, so that they meet. */
const edit: fc.Arbitrary<Edit> = fc.record({
  index: fc.nat(160),
  hour: fc.nat(12),
  version: fc.nat(3),
});

export const events: fc.Arbitrary<Event[]> = fc.array(
  fc.oneof(
    {
      weight: 6,
      arbitrary: fc.record({
        kind: fc.constant("publish" as const),
        edits: fc.array(edit, { maxLength: 40 }),
        dropped: fc.array(fc.nat(160), { maxLength: 12 }),
      }),
    },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant("rollback" as const), to: fc.nat(20) }) },
    {
      weight: 1,
      arbitrary: fc.record({
        kind: fc.constant("collect" as const),
        commit: fc.nat(20),
        records: fc.boolean(),
      }),
    },
  ),
  { minLength: 4, maxLength: 9 },
);

/** A market with hostile labels. Several share an hour. */
export function marketOf({ index, hour, version }: Choice): HistoricalMarket {
  const plain = market(index);
  const label = hostile[(index + version) % hostile.length]!;
  return {
    ...plain,
    id: plain.id.replace(/^00000000/, ((index * 2_654_435_761) % 2 ** 32).toString(16).padStart(8, "0")),
    category: label,
    resolvedOutcome: label,
    question: `${plain.question} ${label} ${version}`,
    resolvedAt: market(hour).resolvedAt,
  };
}

/** The content of the archive after a publish. */
export function edited(
  before: ReadonlyMap<number, HistoricalMarket>,
  { edits, dropped }: Extract<Event, { kind: "publish" }>,
): Map<number, HistoricalMarket> {
  const after = new Map(before);
  for (const index of dropped) after.delete(index);
  for (const choice of edits) after.set(choice.index, marketOf(choice));
  // An archive is never empty in these histories.
  if (after.size === 0) after.set(0, marketOf({ index: 0, hour: 0, version: 0 }));
  return after;
}

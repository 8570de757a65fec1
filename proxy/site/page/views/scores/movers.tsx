import type { ScoreListEntry } from "../../../../../schemas/records.ts";
import { moversOf, newestRun } from "../../model/moves.ts";
import { grouped } from "../../model/words.ts";
import { Change, ProtocolLink } from "../../parts/text.tsx";

const few = 5;

const dayAndMonth = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "long", timeZone: "UTC" });

/** The biggest moves of the day of the newest run, each protocol's in its last run. */
export function Movers({ scores }: { scores: readonly ScoreListEntry[] }) {
  const newest = newestRun(scores);
  const all = moversOf(scores.filter(({ updatedAt }) => updatedAt.startsWith(newest.slice(0, 10))));
  if (all.length === 0) return null;
  const moved = all.slice(0, few);
  const least = Math.abs(moved.at(-1)?.delta ?? 0);
  const equal = all.slice(few).filter(({ delta }) => Math.abs(delta) === least).length;
  return (
    <p class="movers">
      <span class="quiet">Biggest moves on {dayAndMonth.format(new Date(newest))}: </span>
      {moved.map(({ slug, delta }, index) => (
        <span key={slug}>
          {index > 0 && ", "}
          <ProtocolLink slug={slug} /> <Change value={delta} />
        </span>
      ))}
      {equal > 0 && `, and ${grouped(equal)} more by ${least} up or down`}
      {" · "}
      <a href="#/week">What changed this week</a>
    </p>
  );
}

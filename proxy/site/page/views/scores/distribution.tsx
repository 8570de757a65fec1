import type { ScoreListEntry } from "../../../../../schemas/records.ts";
import type { ForgeTier } from "../../../../../schemas/scales.ts";
import { Columns } from "../../charts/columns.tsx";
import { briAxis, briBands, distribution } from "../../charts/distribution.ts";
import { TakeAlong } from "../../components/take-along.tsx";
import { Change, ProtocolLink } from "../../components/text.tsx";
import { moversOf, newestRun } from "../../model/statistics.ts";
import { useSite } from "../../model/store.ts";
import { counted, grouped, tiers } from "../../model/words.ts";

interface DistributionProps {
  scores: readonly ScoreListEntry[];
  /** The tiers that stand out; all if none. */
  chosen?: readonly ForgeTier[];
  onPick?: (tier: ForgeTier) => void;
}

export function Distribution({ scores, chosen = [], onPick }: DistributionProps) {
  const numbers = tiers.map(
    (tier) => `${tier}: ${scores.filter(({ forgeScale }) => forgeScale === tier).length}`,
  );
  return (
    <Columns
      columns={distribution(scores, (tier) => chosen.length > 0 && !chosen.includes(tier))}
      label={`How many protocols have which BRI, from 0 to 1,000. ${numbers.join(", ")}.`}
      axis={briAxis}
      bands={briBands(scores)}
      unit="BRI"
      onPick={({ tier }) => onPick?.(tier)}
    />
  );
}

export function TakeScores({ scores }: { scores: readonly ScoreListEntry[] }) {
  const { api } = useSite();
  return (
    <TakeAlong
      name="scores"
      title="The BRI of all protocols"
      n={counted(scores.length, "protocol")}
      legend={tiers.map((text, index) => ({ text, class: `tier-${index + 1}` }))}
      picture={() => <Distribution scores={scores} />}
      asked={() => [{ path: "scores" }]}
      {...(api.published !== undefined && { embed: `${api.published}embed/index.html` })}
    />
  );
}

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

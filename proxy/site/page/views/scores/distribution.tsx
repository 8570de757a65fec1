import type { ScoreListEntry } from "../../../../../schemas/records.ts";
import type { ForgeTier } from "../../../../../schemas/scales.ts";
import { Columns } from "../../charts/columns.tsx";
import { briAxis, briBands, distribution } from "../../charts/distribution.ts";
import { useSite } from "../../model/store.ts";
import { counted, tiers } from "../../model/words.ts";
import { TakeAlong } from "../../parts/take-along.tsx";

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

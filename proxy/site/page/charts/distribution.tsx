import type { ScoreListEntry } from "../../../../schemas/records.ts";
import type { ForgeTier } from "../../../../schemas/scales.ts";
import { counted, tiers } from "../model/words.ts";
import { Columns, type Piece } from "./columns.tsx";
import { type Band, tierBands } from "./picture.tsx";

/** How many points of BRI a column spans, and how many columns span 0 to 1,000. */
const step = 25;
const count = 40;

/** The column of a BRI, from 0 on. */
export const columnOf = (bri: number) => Math.min(count - 1, Math.floor(bri / step));

/** The values of the axis below. */
export const briAxis = [0, 250, 500, 750, 1000].map((bri) => ({
  at: bri / step,
  text: bri === 1000 ? "1,000" : `${bri}`,
}));

/** The bands of the tiers, as places on that axis. */
const briBands = (scores: readonly ScoreListEntry[]): Band[] =>
  (tierBands(scores) ?? []).map(({ from, to, ...tier }) => ({ ...tier, from: from / step, to: to / step }));

interface TierPiece extends Piece {
  tier: ForgeTier;
}

/** How many protocols have which BRI: columns of 25 points, piled up by tier. */
export function distribution(
  scores: readonly ScoreListEntry[],
  faded: (tier: ForgeTier) => boolean,
): TierPiece[][] {
  return Array.from({ length: count }, (_, index) => {
    const within = scores.filter(({ bri }) => columnOf(bri) === index);
    return tiers.flatMap((tier, number) => {
      const value = within.filter(({ forgeScale }) => forgeScale === tier).length;
      const last = index === count - 1 ? 1000 : step * (index + 1) - 1;
      const title = `${counted(value, "protocol")} of tier ${tier} with a BRI of ${step * index} to ${last}`;
      const name = `column tier-${number + 1}${faded(tier) ? " faded" : ""}`;
      return value === 0 ? [] : [{ value, class: name, title, tier }];
    });
  });
}

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

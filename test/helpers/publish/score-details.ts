import type { ScoreDimensions, ScoreHistory } from "../../../schemas/envelopes.ts";
import { protocolDimensionKeys } from "../../../schemas/protocol.ts";
import { ProtocolScore } from "../../../schemas/records.ts";
import { sourceRuns } from "../archive/source-rows.ts";

/** What is to be told of a protocol beyond its record. */
export interface ScoreDetails {
  history: ScoreHistory;
  dimensions: ScoreDimensions;
}

/** The details of every protocol in Parquet sources, by slug; made row by row and without DuckDB. */
export async function sourceDetails(directory: string): Promise<Map<string, ScoreDetails>> {
  const runs = (await sourceRuns(directory)).map((run) => ProtocolScore.parse(run));
  const newest = new Map(runs.map((run) => [run.slug, run]));
  const details = new Map<string, ScoreDetails>();
  for (const current of newest.values()) {
    const earliest = Date.parse(current.updatedAt) - 604_800_000;
    const shown = runs.filter(
      ({ slug, updatedAt }) => slug === current.slug && Date.parse(updatedAt) >= earliest,
    );
    details.set(current.slug, {
      history: { slug: current.slug, days: 7, count: shown.length, points: shown.map(pointOf) },
      dimensions: dimensionsOf(current, shown[0]!, [...newest.values()]),
    });
  }
  return details;
}

function pointOf({ updatedAt, bri, forgeScale, forgeScaleNum, confidence, delta }: ProtocolScore) {
  return { updatedAt, bri, forgeScale, forgeScaleNum, confidence, delta };
}

function dimensionsOf(
  { slug, updatedAt, evidenceHash, dimensions }: ProtocolScore,
  oldest: ProtocolScore,
  all: readonly ProtocolScore[],
): ScoreDimensions {
  const detail = protocolDimensionKeys.map((key) => {
    const score = dimensions[key];
    const lower = all.filter((other) => other.dimensions[key] < score).length;
    return {
      key,
      score,
      change7d: score - oldest.dimensions[key],
      percentile: roundedShare(lower, all.length - 1),
    };
  });
  return { slug, updatedAt, evidenceHash, dimensions: detail };
}

/** `part` of `whole` in percent: the largest whole number that is not above it by more than a half. */
function roundedShare(part: number, whole: number): number {
  let percent = 0;
  while (whole > 0 && (2 * percent + 1) * whole <= 200 * part) percent += 1;
  return percent;
}

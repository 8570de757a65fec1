import { dimensionMeanings, meanings } from "./meanings.ts";
import { count, double, integer, oneOf, struct, text, time } from "./shapes.ts";
import { bounds, forgeTiers, numbersOfTiers } from "./versions.ts";

export type ProtocolDimensionKey = keyof typeof dimensionMeanings.protocol;
export const protocolDimensionKeys = Object.keys(dimensionMeanings.protocol) as ProtocolDimensionKey[];

const score = integer(bounds.score);

/** The members that a list of scores, a point of the history and a record share. */
export const scoreHead = {
  slug: {
    ...text,
    pattern: /^[a-z0-9][a-z0-9._-]{0,99}$/,
    rule: "must be 1 to 100 of a-z, 0-9, dot, dash, underscore, and begin with a-z or 0-9",
    // The name of an endpoint (INTERFACE 4.3).
    reserved: ["batch"],
    meaning: "Protocol identifier, as in the path.",
  },
  bri: { ...integer(bounds.bri), meaning: meanings.bri.meaning },
  forgeScale: { ...oneOf(forgeTiers), meaning: meanings.tier.meaning },
  forgeScaleNum: {
    ...integer({ min: 1, max: forgeTiers.length }),
    meaning: `Numeric form of the tier, ${numbersOfTiers}.`,
  },
  confidence: { ...integer(bounds.confidence), meaning: meanings.confidence.meaning },
  delta: { ...integer(bounds.delta), meaning: meanings.delta.meaning },
  updatedAt: { ...time, meaning: "Time of the scoring run." },
} as const;

/** What describes a protocol in lists and records. */
export const described = {
  category: text,
  chain: text,
  tvl: { ...text, meaning: "Total value locked, as it is displayed." },
} as const;

/**
 * The score record of a protocol (INTERFACE 2.1), from which the published record and the rules for the source derive.
 */
export const protocol = {
  ...scoreHead,
  evidenceHash: { ...text, meaning: "Content hash of the evidence behind the score." },
  dimensions: {
    ...struct(
      Object.fromEntries(protocolDimensionKeys.map((key) => [key, score])) as Record<
        ProtocolDimensionKey,
        typeof score
      >,
    ),
    meaning: `Twelve scores. ${meanings.protocolDimension.meaning}`,
  },
  cascade: struct({ blastRadius: count, upstreamDeps: count }),
  findings: struct({ critical: count, high: count, medium: count }),
  metadata: struct({ ...described, contracts: count, zFactor: double }),
} as const;

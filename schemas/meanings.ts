/** Whether higher scores of a market are good or bad. */
export const directions = { composite: "higher is safer", dimension: "higher is riskier" } as const;

/**
 * What the numbers mean (INTERFACE 2.8). The API's description, the README, the docs page and the site all show these
 * sentences. An operator whose formula differs changes them here. `field` is the field's name in Markdown.
 */
export const meanings = {
  bri: {
    field: "`bri`",
    meaning: "Composite score of a protocol, from 0 to 1000: higher is safer, and the tier rises with it.",
  },
  composite: {
    field: "`composite`",
    meaning: `Composite score of a market, from 300 to 1000: ${directions.composite}, and the tier rises with it.`,
  },
  tier: {
    field: "`forgeScale`, `tier`",
    meaning: "Tier of the Forge Scale, from RAW up to ADAMANTINE: higher is safer.",
  },
  confidence: { field: "`confidence`", meaning: "How sure the score is, from 0 to 100: higher is surer." },
  delta: { field: "`delta`", meaning: "Change of BRI since the run before." },
  protocolDimension: {
    field: "`dimensions` of a protocol",
    meaning: "Each from 0 to 100: higher is safer; 0 can also mean that there is no signal.",
  },
  marketDimension: {
    field: "`dimensions` of a market",
    meaning: `Each from 0 to 100, the strength of a risk signal: ${directions.dimension}.`,
  },
  topRiskDriver: { field: "`topRiskDriver`", meaning: "Names the main risk signal of a market." },
} as const;

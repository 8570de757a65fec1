import { bounds } from "./versions.ts";

/** Whether higher scores of a market are good or bad. */
export const directions = { composite: "higher is safer", dimension: "higher is riskier" } as const;

/**
 * What the name of each dimension tells. The operator's formula decides what it measures, and an operator states that
 * here. Those of a protocol have the order of INTERFACE 2.2.
 */
export const dimensionMeanings = {
  protocol: {
    access_control: "Who may do what in the contracts.",
    economic_soundness: "Whether its economic design is sound.",
    oracle_integrity: "The oracles that bring outside data to the contracts.",
    compositional_risk: "The other protocols that it is composed of.",
    governance: "How it is governed.",
    maturity: "How mature it is.",
    adversarial_resilience: "How it withstands adversaries.",
    supply_chain: "The supply chain of its software.",
    liquidity: "Its liquidity.",
    cross_chain: "What spans several chains.",
    opsec: "Operational security.",
    cascade_exposure: "Failures elsewhere that would cascade to it.",
  },
  market: {
    informed: "Trading on information that others lack.",
    integrity: "The integrity of trading.",
    oracle: "The oracle that resolves the market.",
    catalyst: "Events that move the market.",
    design: "The design of the market.",
    counterparty: "The other side of a trade.",
  },
} as const;

/**
 * What the numbers mean (INTERFACE 2.8). The API's description, the README, the docs page and the site all show these
 * sentences. An operator whose formula differs changes them here. `field` is the field's name in Markdown.
 */
export const meanings = {
  bri: {
    field: "`bri`",
    meaning: "Composite score of a protocol, from 0 to 1,000: higher is safer, and the tier rises with it.",
  },
  composite: {
    field: "`composite`",
    meaning: `Composite score of a market, from ${bounds.composite.min} to ${bounds.composite.max.toLocaleString("en")}: ${directions.composite}, and the tier rises with it.`,
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
  flaggedCount: { field: "`flaggedCount`", meaning: "Number of flagged items of a market." },
  disputed: {
    field: "`disputed`",
    meaning:
      "Whether the resolution was disputed. The site shows shares of disputed markets with 95 % intervals " +
      "after Wilson.",
  },
  weight: { field: "`weight`", meaning: "Weight of a dimension in the composite, from 0 to 1." },
  computation: {
    field: "`computation`",
    meaning: "Where the score of a dimension starts (baseline), and what raises and lowers it.",
  },
  change7d: {
    field: "`change7d`",
    meaning: "Change of a dimension against the oldest point of the seven days of history.",
  },
  percentile: {
    field: "`percentile`",
    meaning: "Percent of the other protocols that score lower in this dimension: higher is safer.",
  },
  cascade: {
    field: "`cascade`",
    meaning:
      "What a failure would reach (blast radius), and what the protocol depends on (upstream dependencies).",
  },
  findings: { field: "`findings`", meaning: "Number of findings by severity: fewer is safer." },
  tvl: { field: "`tvl`", meaning: "Total value locked, as it is displayed." },
  contracts: { field: "`contracts`", meaning: "Number of contracts of the protocol." },
  zFactor: { field: "`zFactor`", meaning: "Z factor of the protocol, as published." },
} as const;

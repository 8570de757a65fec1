/** Whether higher scores of a market are good or bad. */
export const directions = { composite: "higher is safer", dimension: "higher is riskier" } as const;

/** Says what each dimension looks at, in a sentence. An operator whose formula looks at something else changes it here. */
export const dimensionMeanings = {
  protocol: {
    access_control: "Who can change, pause or empty the contracts, and how those rights are guarded.",
    economic_soundness: "Whether the incentives and the solvency of the design hold.",
    oracle_integrity: "How far the prices and other data that the contracts read can be trusted.",
    compositional_risk: "What the protocol takes over from the contracts that it is built on.",
    governance: "How decisions are made, and whether a few can force or capture them.",
    maturity: "How long the code has been in use, and how well it has been tested and reviewed.",
    adversarial_resilience: "How well the protocol withstands deliberate attacks.",
    supply_chain: "How far the libraries, tools and services that it is made with can be trusted.",
    liquidity: "Whether positions can be left without a great loss when many leave.",
    cross_chain: "What bridges and messages between chains put at risk.",
    opsec: "How well the keys, machines and people behind the protocol are protected.",
    cascade_exposure: "How far failures elsewhere would reach the protocol.",
  },
  market: {
    informed: "Signs that some traders knew more than the public.",
    integrity: "Signs of trades that were made to mislead, such as wash trades.",
    oracle: "Doubts about who decides the outcome, and how.",
    catalyst: "How far a single event could move or decide the market.",
    design: "Gaps and ambiguities in the question and its rules.",
    counterparty: "How far the market depends on a few holders or traders.",
  },
} as const;

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
    meaning: "What a failure would reach (blastRadius), and what the protocol depends on (upstreamDeps).",
  },
  findings: { field: "`findings`", meaning: "Number of findings by severity: fewer is safer." },
  tvl: { field: "`tvl`", meaning: "Total value locked, as it is displayed." },
  contracts: { field: "`contracts`", meaning: "Number of contracts of the protocol." },
  zFactor: { field: "`zFactor`", meaning: "Z factor of the protocol, as published." },
} as const;

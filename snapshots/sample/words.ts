/** The words that the sample is made of, all invented. Their order matters, because rows pick them by position. */

/** Weights add up to 100. Several names differ only in letter case, also beyond ASCII. */
export const categories: readonly (readonly [name: string, weight: number])[] = [
  ["other", 24],
  ["politics", 15],
  ["Politics", 14],
  ["Sports", 14],
  ["sports", 5],
  ["Crypto", 12],
  ["crypto", 7],
  ["weather", 2],
  ["Économie", 2],
  ["économie", 1],
  ["ÉCONOMIE", 1],
  ["science & tech", 1],
  ["Σπορ", 1],
  ["σπορ", 1],
];

export const subjects: readonly string[] = [
  "Riverton United",
  "the Lindgren bill",
  "Ana Kováčová",
  "FC Ørsted",
  "Blue Harbor",
  "the Tessaly index",
  "Nguyễn Hoài An",
  "São Bento",
  "the “Night Owl” merger",
  "Åse Bjørnstad",
  "Project Kestrel 🪶",
  "the Marlow rate cut",
  "Zürich Comets",
  "大江 Tigers",
  "O'Rourke & Sons",
  "the Pallas launch",
  "Włókniarz Nowy",
  "Emre Şahin",
  "the Quillon token",
  "Red Mesa",
  "Иван Полев",
  "the Hollis ballot",
  "Team Σίγμα",
  'the "Tall Order" film',
  "Northfield Foxes",
  "the Ardent stablecoin",
  "Île Verte",
  "Kaffee & Kuchen GmbH",
  "the Varga cabinet",
  "Stormwatch ⛈",
  "Port Calder",
  "the Merino upgrade",
];

/** `{s}` is a subject, `{t}` a second one, `{n}` a number, `{d}` a day. */
export const templates: readonly string[] = [
  "Will {s} finish ahead of {t} by {d}?",
  "{s} vs. {t}: more than {n} in total?",
  "Will {s} be confirmed before {d}?",
  "Does {s} close above {n} on {d}?",
  "Will {t} concede to {s} before {d}?",
  "{s}: at least {n} by {d}?",
  "Will anything about {s} change by {d}?",
  "How does {s} against {t} end on {d}?",
];

/** Most frequent first. */
export const commonOutcomes: readonly string[] = ["No", "Yes", "Over", "Under", "Up", "Down"];

/** A rare outcome label is a first word, a second word and, once all pairs are used, a number. */
export const outcomeFirsts: readonly string[] = [
  "Riverton",
  "Ørsted",
  "São Bento",
  "yes",
  "NO",
  "大江",
  "O'Rourke",
  '"Tall"',
  "🦊",
  "Île",
  "Kováčová",
  "76",
  "$100k+",
  "Σίγμα",
  "Harbor",
  "Полев",
  "Şahin",
  "Vale, Lower",
  "25-50",
  "n/a",
];
export const outcomeSeconds: readonly string[] = [
  "Comets",
  "Foxes 🏆",
  "United",
  "Tigers",
  "(OT)",
  "& Co.",
  "FC",
  "Ælves",
  "100%",
  "Draw?",
  "Gaming",
  "Nord",
  "\\ other",
  "bps",
  "Wölfe",
  "Esports",
  "II",
  "by KO",
  "Rovers",
  "🇪🇺",
];

/** Weights add up to 1. */
export const dimensions = [
  { key: "informed", name: "Informed flow", weight: 0.24 },
  { key: "integrity", name: "Trading integrity", weight: 0.19 },
  { key: "oracle", name: "Oracle reliability", weight: 0.17 },
  { key: "catalyst", name: "Catalyst exposure", weight: 0.16 },
  { key: "design", name: "Contract design", weight: 0.14 },
  { key: "counterparty", name: "Counterparty concentration", weight: 0.1 },
] as const;

export const findings: readonly string[] = [
  "one-sided depth near the close",
  "fills clustered minutes before the news",
  "a thin book on one side",
  "wallets funded from one source",
  "a resolver with a stake in the result",
  "wording that leaves two readings",
];

export const evidenceTypes: readonly string[] = [
  "wallet_signal",
  "timing_signal",
  "rule_text",
  "book_signal",
];

export const patterns: readonly string[] = [
  "size_jump",
  "late_buyer",
  "shared_funding",
  "mirrored_orders",
  "quote_stuffing",
  "ambiguous_clause",
];

export const raises: readonly string[] = ["single_resolver", "volume_jump", "late_buyers", "shared_funding"];
export const lowers: readonly string[] = ["deep_book", "clear_wording", "many_holders"];

export const protocolStems: readonly string[] = [
  "example",
  "kestrel",
  "blue-harbor",
  "quillon",
  "ardent.fi",
  "marlow",
  "tessaly",
  "northfield",
  "pallas",
  "merino",
  "varga.xyz",
  "red-mesa",
];

/** A kind of protocol as part of the slug, and its category. */
export const protocolKinds: readonly (readonly [slug: string, category: string])[] = [
  ["lend", "Lending"],
  ["dex", "Dexs"],
  ["bridge", "Bridge"],
  ["stake", "Liquid Staking"],
  ["perps", "Derivatives"],
  ["vault", "Yield"],
  ["cdp", "CDP"],
  ["pay", "Payments"],
];

export const chains: readonly string[] = ["Ethereum", "Arbitrum", "Solana", "Base", "Polygon", "Multi-chain"];

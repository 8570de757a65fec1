import { quoted, textList } from "../sources/duckdb/sql-literals.ts";
import { sampleEpoch, tierName } from "./sql.ts";
import * as words from "./words.ts";

/**
 * SELECT of the sample markets from `first` to `last` (exclusive). A row depends only on its number, the seed (in the
 * macros of sql.ts) and `outcomes`, so a longer sample begins with the rows of a shorter one. `daysBack` days before
 * the sample's end, the markets resolved since then are missing, and half of the week's disputes are not known yet.
 */
export function marketsQuery(first: number, last: number, outcomes: number, daysBack: number): string {
  const end = `(TIMESTAMPTZ '${sampleEpoch}' - to_days(${daysBack}))`;
  const unknown = `resolved_at >= ${end} - to_days(7) AND part(n, 'known late') < 0.5`;
  const known = daysBack > 0 ? ` AND NOT (${unknown})` : "";
  return `
WITH numbered AS (SELECT range AS n FROM range(${first}, ${last})),
drawn AS (
  SELECT n, ${categoryOf} AS category, ${questionOf} AS question, ${outcomeOf(outcomes)} AS resolved_outcome,
    md5(concat('market ', bits(n, 'id'))) AS digest, ${resolvedAtOf} AS resolved_at,
    ${words.dimensions.map(({ key }) => `${scoreOf(key)} AS ${key}`).join(", ")}
  FROM numbered),
counted AS (
  SELECT *, ${compositeOf} AS composite,
    ${words.dimensions.map(({ key }) => `${evidenceCountOf(key)} AS ${key}_count`).join(", ")},
    greatest(${words.dimensions.map(({ key }) => key).join(", ")}) AS highest
  FROM drawn)
SELECT ${idOf} AS id,
  concat(trim(regexp_replace(lower(strip_accents(question)), '[^a-z0-9]+', '-', 'g'), '-'), '-', n) AS slug,
  question, category, composite::INTEGER AS composite, ${tierName("composite")} AS tier, 'resolved' AS status,
  resolved_outcome, resolved_at, concat('https://markets.example.org/m/', digest[1:12]) AS resolution_source,
  part(n, 'disputed') < 0.137 * pow((1000 - composite) / 700, 2)${known} AS disputed,
  CASE ${words.dimensions.map(({ key, name }) => `WHEN ${key} = highest THEN ${quoted(name)}`).join(" ")} END
    AS top_risk_driver,
  (${words.dimensions.map(({ key }) => `${key}_count`).join(" + ")})::INTEGER AS flagged_count,
  CASE WHEN resolved_at < TIMESTAMPTZ '2025-03-01 00:00:00+00' THEN 'bri-pm-v1' ELSE 'bri-pm-v2' END
    AS formula_version,
  'bri-pm-w-v1' AS weight_version,
  [${words.dimensions.map(dimensionOf).join(",\n")}] AS dimensions
FROM counted${daysBack > 0 ? ` WHERE resolved_at < ${end}` : ""}`;
}

const categoryOf = `${textList(words.categories.flatMap(([name, weight]) => Array(weight).fill(name)))}
  [1 + below(n, 'category', 100)]`;

const dayText = `concat(pick(n, 'month', ${textList(words.months)}), ' ', 1 + below(n, 'day', 28))`;

const questionOf = `replace(replace(replace(replace(pick(n, 'template', ${textList(words.templates)}),
  '{s}', pick(n, 'subject', ${textList(words.subjects)})),
  '{t}', ${textList(words.subjects)}[1 + (below(n, 'subject', 32) + 1 + below(n, 'other', 31)) % 32]),
  '{n}', (5 * (1 + below(n, 'number', 200)))::VARCHAR), '{d}', ${dayText})`;

/** Mostly No and Yes. Every tenth market takes the next of all labels in turn, so that each label occurs. */
function outcomeOf(outcomes: number): string {
  const { commonOutcomes, outcomeFirsts, outcomeSeconds } = words;
  const pairs = outcomeFirsts.length * outcomeSeconds.length;
  const position = `(CASE WHEN n % 10 = 0 THEN n // 10 WHEN part(n, 'outcome') < 0.5 THEN 0
    WHEN part(n, 'outcome') < 0.85 THEN 1 WHEN part(n, 'outcome') < 0.92 THEN 2 + below(n, 'common', 4)
    ELSE (part(n, 'odd') * part(n, 'odd') * ${outcomes})::BIGINT END % ${outcomes})`;
  const odd = `(${position} - ${commonOutcomes.length})`;
  return `CASE WHEN ${position} < ${commonOutcomes.length} THEN ${textList(commonOutcomes)}[1 + ${position}]
    ELSE concat(${textList(outcomeFirsts)}[1 + ${odd} % ${outcomeFirsts.length}], ' ',
      ${textList(outcomeSeconds)}[1 + ${odd} // ${outcomeFirsts.length} % ${outcomeSeconds.length}],
      CASE WHEN ${odd} >= ${pairs} THEN concat(' ', 1 + ${odd} // ${pairs}) ELSE '' END) END`;
}

/**
 * Falls from 1000 by seven times the weighted mean of the scores: a bell curve around 710, with thin tails to 300 and
 * 1000. In whole numbers, so that it is the same everywhere.
 */
const compositeOf = `1000 - 7 * (${words.dimensions
  .map(({ key, weight }) => `${Math.round(weight * 100)} * ${key}`)
  .join(" + ")}) // 100`;

/**
 * Spread over two years, denser towards the end. One in eight is at midnight, one in sixteen at one of six crowded
 * moments, and the others at any microsecond.
 */
const resolvedAtOf = `TIMESTAMPTZ '${sampleEpoch}' - (CASE
  WHEN part(n, 'clock') < 0.125 THEN to_days(1 + (part(n, 'age') * part(n, 'age') * 729)::INTEGER)
  WHEN part(n, 'clock') < 0.185 THEN to_hours(7 + 1700 * below(n, 'moment', 6))
  ELSE to_microseconds(1 + (part(n, 'age') * part(n, 'age') * 63072000000000)::BIGINT) END)`;

const idOf = `concat(digest[1:8], '-', digest[9:12], '-4', digest[14:16], '-a',
  digest[18:20], '-', digest[21:32])`;

/** One market in a hundred is about as risky in all dimensions, from not at all to as far as the scale goes. */
const scoreOf = (key: string) => `CASE
  WHEN part(n, 'tail') < 0.01
    THEN greatest(0, least(100, below(n, 'risk', 131) - 15 + below(n, '${key} a', 21) - 10))
  WHEN part(n, '${key} silent') < 0.2 THEN 0
  ELSE 8 + below(n, '${key} a', 45) + below(n, '${key} b', 45) END`;

/** Weak signals have no evidence. Others have one to three items, and one in forty has up to nine. */
const evidenceCountOf = (key: string) => `CASE WHEN ${key} < 55 THEN 0
  WHEN part(n, '${key} rich') < 0.025 THEN 1 + below(n, '${key} count', 9)
  ELSE 1 + below(n, '${key} count', 3) END`;

function dimensionOf({ key, name, weight }: (typeof words.dimensions)[number]): string {
  const salt = (what: string) => `'${key} ${what}'`;
  return `{'key': '${key}', 'name': '${name}', 'score': ${key}::INTEGER, 'weight': ${weight}::DOUBLE,
  'description': CASE WHEN ${key} = 0 THEN 'Nothing notable about ${key} in this market.'
    WHEN ${key} < 55 THEN concat('${name}: low. ', 10 + below(n, ${salt("fills")}, 990), ' fills over ',
      1 + below(n, ${salt("days")}, 60), ' days were reviewed.')
    ELSE concat('${name}: raised. A review of ', 10 + below(n, ${salt("fills")}, 990),
      ' fills in “', question,
      '” found ', pick(n, ${salt("finding")}, ${textList(words.findings)}), '.') END,
  'evidence': list_transform(range(${key}_count), lambda k: ${evidenceOf(salt)}),
  'references': CASE WHEN part(n, ${salt("reference")}) < 0.03
    THEN [{'title': concat('Note on ', question), 'page': below(n, ${salt("page")}, 40)}] ELSE [] END,
  'computation': {'baseline': (150 + below(n, ${salt("baseline")}, 350))::DOUBLE / 10,
    'raises': ${textList(words.raises)}[1:below(n, ${salt("raises")}, 3)],
    'lowers': list_transform(${textList(words.lowers)}[1:below(n, ${salt("lowers")}, 2)],
      lambda word: {'signal': word, 'points': 1 + below(n, ${salt("points")}, 9)})}}`;
}

function evidenceOf(salt: (what: string) => string): string {
  const item = "(n * 16 + k)";
  const wallet = `md5(concat(bits(${item}, ${salt("wallet")})))`;
  return `{'type': pick(${item}, ${salt("type")}, ${textList(words.evidenceTypes)}),
    'label': concat('Wallet 0x', ${wallet}[1:8], ' took ', 100 + below(${item}, ${salt("shares")}, 60000),
      ' shares ', 1 + below(${item}, ${salt("hours")}, 48), ' h before the result'),
    'pattern': pick(${item}, ${salt("pattern")}, ${textList(words.patterns)}),
    'reference': {'label': concat('0x', ${wallet}[1:6], '…'),
      'url': concat('https://wallets.example.org/profile/0x', ${wallet}), 'kind': 'profile'}}`;
}

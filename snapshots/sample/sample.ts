import { mkdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { protocolDimensionKeys } from "../../schemas/protocol.ts";
import { forgeTiers } from "../../schemas/versions.ts";
import { inSession } from "../sources/duckdb/duckdb.ts";
import { quoted, textList } from "../sources/duckdb/sql-literals.ts";
import * as words from "./words.ts";

/** Equal options give equal rows, whatever the machine's time zone, clock or number of cores. */
export interface SampleOptions {
  /** The directory of the sources. An earlier sample in it is replaced. */
  directory: string;
  markets: number;
  protocols: number;
  /** Scoring runs per protocol, one per day. */
  days: number;
  outcomes: number;
  seed: number;
  /** Leaves out this many last days, fewer than `days`: the sources as they were then. Default: 0. */
  daysBack?: number;
  /** Default: all cores. */
  threads?: number;
  /** Limits DuckDB's memory: it keeps data of every row group until a file is finished. Default: 50,000. */
  marketsPerFile?: number;
}

/** What `npm run sample` makes by default. */
export const sampleDefaults = { markets: 20_000, protocols: 100, days: 30, outcomes: 800, seed: 1 } as const;

/**
 * Writes Parquet sources: `markets/part-00000.parquet` and following, and `protocol_scores.parquet`, which has one of
 * the `scores` for each protocol and day.
 */
export async function writeSample(options: SampleOptions) {
  const { directory, markets, protocols, days, outcomes, seed, threads } = options;
  const { marketsPerFile = 50_000, daysBack = 0 } = options;
  const marketsDirectory = join(directory, "markets");
  await rm(marketsDirectory, { recursive: true, force: true });
  await mkdir(marketsDirectory, { recursive: true });
  const session = {
    memoryMegabytes: 400,
    temporaryDirectory: join(directory, ".duckdb"),
    threads,
    ordered: true,
  };
  try {
    const files = await inSession(session, async (connection) => {
      const written: { path: string; rows: number }[] = [];
      const copy = async (query: string, path: string) => {
        const { rowsChanged } = await connection.run(
          `COPY (${query}) TO ${quoted(path)} (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 10240)`,
        );
        written.push({ path, rows: rowsChanged });
      };
      for (const macro of randomMacros(seed)) await connection.run(macro);
      for (let first = 0; first < markets; first += marketsPerFile) {
        const name = `part-${String(first / marketsPerFile).padStart(5, "0")}.parquet`;
        const last = Math.min(first + marketsPerFile, markets);
        await copy(marketsQuery(first, last, outcomes, daysBack), join(marketsDirectory, name));
      }
      await copy(protocolScoresQuery(protocols, days, daysBack), join(directory, "protocol_scores.parquet"));
      return written;
    });
    const sizes = await Promise.all(files.map(async ({ path }) => (await stat(path)).size));
    const bytes = sizes.reduce((sum, size) => sum + size, 0);
    const rows = files.reduce((sum, file) => sum + file.rows, 0);
    const scores = protocols * (days - daysBack);
    return { directory, markets: rows - scores, protocols, scores, files: files.length, bytes };
  } finally {
    await rm(join(directory, ".duckdb"), { recursive: true, force: true });
  }
}

/** All sample times end here. It is a constant in the past, so that rows do not depend on the clock. */
const sampleEpoch = "2025-12-31 00:00:00+00";

/**
 * SQL macros for pseudo-random numbers that depend only on the row's number, a salt and the seed: a row is the same
 * whichever thread makes it. `bits(n, salt)` gives 64 bits, `part(n, salt)` a number from 0 to 1, `below` an integer
 * below a bound, and `pick` an element of a list.
 */
function randomMacros(seed: number): readonly string[] {
  return [
    `CREATE MACRO bits(n, salt) AS hash(hash(n::BIGINT, salt::VARCHAR, ${seed}::BIGINT))`,
    "CREATE MACRO part(n, salt) AS (bits(n, salt) >> 11)::DOUBLE / 9007199254740992",
    "CREATE MACRO below(n, salt, bound) AS (bits(n, salt) % (bound)::UBIGINT)::INTEGER",
    "CREATE MACRO pick(n, salt, words) AS words[1 + below(n, salt, len(words))]",
  ];
}

/** SQL for a tier's number from 1 to 7. `score` is SQL for 0 to 1000: RAW below 400, ADAMANTINE from 900. */
function tierNumber(score: string): string {
  return `CASE WHEN ${score} < 400 THEN 1 WHEN ${score} >= 900 THEN 7 ELSE ${score} // 100 - 2 END`;
}

/** SQL for a tier's name. `score` is SQL for 0 to 1000. */
function tierName(score: string): string {
  return `${textList(forgeTiers)}[${tierNumber(score)}]`;
}

/**
 * SELECT of the sample markets from `first` to `last` (exclusive). A row depends only on its number, the seed (in the
 * macros of randomMacros) and `outcomes`, so a longer sample begins with the rows of a shorter one. `daysBack` days
 * before its end, the markets resolved since then are missing, and half of the week's disputes are not known yet.
 */
function marketsQuery(first: number, last: number, outcomes: number, daysBack: number): string {
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

const dayText = `concat(monthname(make_date(2000, 1 + below(n, 'month', 12), 1)), ' ', 1 + below(n, 'day', 28))`;

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

/**
 * SELECT of one score per protocol and day, the last on the day before the sample's end. bri is a random walk back from
 * there, so that a protocol has the same score in samples of more or fewer days, and the dimensions are about a tenth
 * of it. The scores of the last `daysBack` days are missing.
 */
function protocolScoresQuery(protocols: number, days: number, daysBack: number): string {
  const dimension = (key: string) =>
    `'${key}': greatest(1, least(100, bri // 10 - 15 + below(p, '${key}', 27) + below(run, '${key} day', 5)))`;
  // A safer protocol has fewer findings, and the more severe they are, the more so.
  const findings = (severity: string, most: number, power: number) =>
    `'${severity}': floor(part(p, '${severity}') * (1 + ${most} * pow((1000 - bri) / 600, ${power})))::INTEGER`;
  return `
WITH runs AS (
  SELECT p, age, p * 4096 + age AS run
  FROM (SELECT range AS p FROM range(${protocols})), (SELECT range AS age FROM range(1, ${days + 1}))),
walked AS (
  SELECT *, greatest(0, least(1000, 380 + below(p, 'bri', 550)
    + sum(CASE WHEN age = 1 THEN 0 ELSE below(run, 'step', 13) - 6 END)
      OVER (PARTITION BY p ORDER BY age)))::INTEGER AS bri
  FROM runs)
SELECT ${slugOf} AS slug, bri, ${tierName("bri")} AS forge_scale,
  (${tierNumber("bri")})::INTEGER AS forge_scale_num,
  60 + below(p, 'confidence', 38) AS confidence,
  bri - lead(bri, 1, bri) OVER (PARTITION BY p ORDER BY age) AS delta,
  TIMESTAMPTZ '${sampleEpoch}' - to_days(age::INTEGER)
    + to_microseconds(21600000000 + below(run, 'time', 900000000))
    AS updated_at,
  concat('0x', sha256(concat('evidence ', bits(run, 'evidence')))) AS evidence_hash,
  {${protocolDimensionKeys.map(dimension).join(", ")}} AS dimensions,
  {'blast_radius': below(p, 'blast', 400), 'upstream_deps': below(p, 'deps', 30)} AS cascade,
  {${findings("critical", 2, 3)}, ${findings("high", 8, 2)},
    ${findings("medium", 24, 1)}} AS findings,
  {'category': ${textList(words.protocolKinds.map(([, category]) => category))}[1 + ${kind}],
    'chain': pick(p, 'chain', ${textList(words.chains)}), 'tvl': ${tvlOf},
    'contracts': 1 + below(p, 'contracts', 200),
    'z_factor': (below(p, 'z', 4000) - 2000)::DOUBLE / 1000} AS metadata
FROM walked QUALIFY age > ${daysBack} ORDER BY bits(run, 'order')`;
}

/** Log-normal around 60 million dollars; few are above a billion. */
const tvl = `exp(17.9 + 3 * (part(p, 'tvl a') + part(p, 'tvl b') + part(p, 'tvl c') + part(p, 'tvl d') - 2))`;
const tvlOf = `CASE WHEN ${tvl} < 1e6 THEN printf('$%.0fK', ${tvl} / 1e3)
      WHEN ${tvl} < 1e9 THEN printf('$%.2fM', ${tvl} / 1e6) ELSE printf('$%.2fB', ${tvl} / 1e9) END`;

const kind = `p // ${words.protocolStems.length} % ${words.protocolKinds.length}`;
const edition = `p // ${words.protocolStems.length * words.protocolKinds.length}`;

/** `example-lend`, then `example-lend-v2` and so on, with `.v3` for every third edition. */
const slugOf = `concat(${textList(words.protocolStems)}[1 + p % ${words.protocolStems.length}], '-',
  ${textList(words.protocolKinds.map(([slug]) => slug))}[1 + ${kind}],
  CASE WHEN ${edition} = 0 THEN ''
  ELSE concat(CASE WHEN ${edition} % 3 = 2 THEN '.v' ELSE '-v' END, ${edition} + 1) END)`;

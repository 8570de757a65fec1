import { protocolDimensionKeys } from "../../schemas/protocol.ts";
import { textList } from "../sources/duckdb/sql-literals.ts";
import { sampleEpoch, tierName, tierNumber } from "./sql.ts";
import { chains, protocolKinds, protocolStems } from "./words.ts";

/**
 * SELECT of one score per protocol and day, the last on the day before the sample's end. bri is a random walk back from
 * there, so that a protocol has the same score in samples of more or fewer days, and the dimensions are about a tenth of
 * it. The scores of the last `daysBack` days are missing.
 */
export function protocolScoresQuery(protocols: number, days: number, daysBack: number): string {
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
  {'category': ${textList(protocolKinds.map(([, category]) => category))}[1 + ${kind}],
    'chain': pick(p, 'chain', ${textList(chains)}), 'tvl': ${tvlOf},
    'contracts': 1 + below(p, 'contracts', 200),
    'z_factor': (below(p, 'z', 4000) - 2000)::DOUBLE / 1000} AS metadata
FROM walked QUALIFY age > ${daysBack} ORDER BY bits(run, 'order')`;
}

/** Log-normal around 60 million dollars; few are above a billion. */
const tvl = `exp(17.9 + 3 * (part(p, 'tvl a') + part(p, 'tvl b') + part(p, 'tvl c') + part(p, 'tvl d') - 2))`;
const tvlOf = `CASE WHEN ${tvl} < 1e6 THEN printf('$%.0fK', ${tvl} / 1e3)
      WHEN ${tvl} < 1e9 THEN printf('$%.2fM', ${tvl} / 1e6) ELSE printf('$%.2fB', ${tvl} / 1e9) END`;

const kind = `p // ${protocolStems.length} % ${protocolKinds.length}`;
const edition = `p // ${protocolStems.length * protocolKinds.length}`;

/** `example-lend`, then `example-lend-v2` and so on, with `.v3` for every third edition. */
const slugOf = `concat(${textList(protocolStems)}[1 + p % ${protocolStems.length}], '-',
  ${textList(protocolKinds.map(([slug]) => slug))}[1 + ${kind}],
  CASE WHEN ${edition} = 0 THEN ''
  ELSE concat(CASE WHEN ${edition} % 3 = 2 THEN '.v' ELSE '-v' END, ${edition} + 1) END)`;

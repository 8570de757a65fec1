import { protocolDimensionKeys } from "../../schemas/protocol.ts";
import { textList } from "../sources/duckdb/sql-literals.ts";
import { sampleEpoch, tierName, tierNumber } from "./sql.ts";
import { chains, protocolKinds, protocolStems } from "./words.ts";

/**
 * SELECT of one score per protocol and day, the last on the day before the sample's end. bri is a random walk. The
 * scores of the last `daysBack` days are missing.
 */
export function protocolScoresQuery(protocols: number, days: number, daysBack: number): string {
  const dimension = (key: string) =>
    `'${key}': greatest(0, least(100, below(p, '${key}', 95) + below(run, '${key} day', 9)))::INTEGER`;
  return `
WITH runs AS (
  SELECT p, d, p * 4096 + d AS run
  FROM (SELECT range AS p FROM range(${protocols})), (SELECT range AS d FROM range(${days - daysBack}))),
walked AS (
  SELECT *, greatest(0, least(1000, 380 + below(p, 'bri', 550)
    + sum(CASE WHEN d = 0 THEN 0 ELSE below(run, 'step', 13) - 6 END)
      OVER (PARTITION BY p ORDER BY d)))::INTEGER AS bri
  FROM runs)
SELECT ${slugOf} AS slug, bri, ${tierName("bri")} AS forge_scale,
  (${tierNumber("bri")})::INTEGER AS forge_scale_num,
  60 + below(p, 'confidence', 38) AS confidence,
  bri - coalesce(lag(bri) OVER (PARTITION BY p ORDER BY d), bri) AS delta,
  TIMESTAMPTZ '${sampleEpoch}' - to_days((${days} - d)::INTEGER)
    + to_microseconds(21600000000 + below(run, 'time', 900000000))
    AS updated_at,
  concat('0x', sha256(concat('evidence ', bits(run, 'evidence')))) AS evidence_hash,
  {${protocolDimensionKeys.map(dimension).join(", ")}} AS dimensions,
  {'blast_radius': below(p, 'blast', 400), 'upstream_deps': below(p, 'deps', 30)} AS cascade,
  {'critical': below(p, 'critical', 3), 'high': below(p, 'high', 9),
    'medium': below(p, 'medium', 25)} AS findings,
  {'category': ${textList(protocolKinds.map(([, category]) => category))}[1 + ${kind}],
    'chain': pick(p, 'chain', ${textList(chains)}), 'tvl': concat('$', 1 + below(p, 'tvl', 900), '.',
      10 + below(p, 'cents', 90), pick(p, 'unit', ['M', 'M', 'B'])),
    'contracts': 1 + below(p, 'contracts', 200),
    'z_factor': (below(p, 'z', 4000) - 2000)::DOUBLE / 1000} AS metadata
FROM walked ORDER BY bits(run, 'order')`;
}

const kind = `p // ${protocolStems.length} % ${protocolKinds.length}`;
const edition = `p // ${protocolStems.length * protocolKinds.length}`;

/** `example-lend`, then `example-lend-v2` and so on, with `.v3` for every third edition. */
const slugOf = `concat(${textList(protocolStems)}[1 + p % ${protocolStems.length}], '-',
  ${textList(protocolKinds.map(([slug]) => slug))}[1 + ${kind}],
  CASE WHEN ${edition} = 0 THEN ''
  ELSE concat(CASE WHEN ${edition} % 3 = 2 THEN '.v' ELSE '-v' END, ${edition} + 1) END)`;

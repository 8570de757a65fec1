import { join } from "node:path";
import { crc32 } from "node:zlib";
import { cuts } from "../../../snapshots/format/bytes.ts";
import { quoted } from "../../../snapshots/sources/duckdb/sql-literals.ts";
import { runSql } from "./sql.ts";

/** Categories that fold onto one another, or nearly; K is the Kelvin sign, Å the Ångström sign, ſ the long s. */
const categories = [
  ...["kelvin", "KELVIN", "\u212Aelvin", "sports", "\u017Fport\u017F", "Straße", "STRA\u1E9EE", "STRASSE"],
  ...["Σίσυφος", "ΣΊΣΥΦΟΣ", "\u00C5ngström", "\u212Bngström", "A\u030Angström", "İstanbul", "istanbul"],
  ...["ıstanbul", "ﬁat", "fiat", " sports", "sports ", "a+b", "a b", "a.b", "a%b_c", "a\\b", "[a]", "^a$"],
  ...["(a|b)*", 'say "a"', "it's"],
  ...["a&b=c#d?e;f/g", "two\nlines", "two\r\nlines", "tab\tbed", "__proto__", "constructor", "null", "0"],
  ...["𐐀deseret", "𐐨deseret", "🪶"],
];

/** Outcome labels that differ in little, or look like something else. */
const outcomes = [
  ...["Yes", "yes", "YES", " Yes", "Yes ", "\u212Aes", "No", "null", "true", "__proto__", "constructor"],
  ...["50/50", "N/A", "1,000+", "é", "e\u0301", "“quoted”", 'a "b" c', "a\\nb", "a\nb", ",\n", "]}"],
  ...["%41", "+", "&outcome=No", `${"€".repeat(85)}x`], // The last one has 256 bytes.
];

/** Versions that differ in little. */
const versions = ["bri-pm-v1", "BRI-PM-V1", "bri-pm-v1 ", "1", "", "é", "e\u0301", "a,b"];

/** Times: one millisecond told apart by microseconds only, ends of days, the first one accepted. */
const times = [
  "2025-03-03 12:00:00.123999+00",
  "2025-03-03 12:00:00.123000+00",
  "2025-03-03 12:00:00.123001+00",
  "2025-03-03 12:00:00.122999+00",
  "2025-03-03 12:00:00.124000+00",
  "2025-06-30 23:59:59.999999+00",
  "2025-07-01 00:00:00+00",
  "2025-07-01 00:00:00.000001+00",
  "2024-02-29 23:30:00+00",
  "2025-06-30 23:59:59.999+05:45",
  "2000-01-01 00:00:00+00",
  "2025-12-31 23:59:59.9999+00",
];

/** Texts that could break a response that is assembled from pieces of text. */
const questions = [
  "one,\ntwo",
  '{"id":"00000000-0000-4000-8000-000000000000"}',
  "]}",
  "back\\slash \\u0041 \\",
  "\u2028 \u2029 \u00A0 \u00AD",
  "\t \r \n \r\n",
  "👩‍👩‍👧 \u202E bidi",
  "\uFFFF \uFEFF",
  "Gewinnt die Straße gegen die STRASSE? Ja/Nein — 50%",
  "ΟΔΟΣ ὈΔΥΣΣΕΎΣ, Σίσυφος; σ ς",
  "ﬁat ＦＩＡＴ ①½ Ⅷ ² x²",
  "e\u0301te\u0301 été ÉTÉ A\u030A \u212B",
  "H\u0331 ẖ J\u030C ǰ",
  "हिन्दी में सवाल? עִבְרִית، العربية ١٢٣",
  "日本語の質問：円は１５０円？ 한국어 질문",
  "İstanbul ıstanbul ISTANBUL istanbul",
  "𐐀𐐨 𝐁𝐨𝐥𝐝 \uE000 \u{20000}字",
  "صلى الله عليه وسلم ﷺ",
  "don't don’t DONT x_y a.b.c",
];

/** Hand-made markets, so many that every label is combined with every time. */
const count = times.length * categories.length;

/** Ids after which a page ends (snapshots/PUBLISHING.md, "Cuts"), so that a small archive has several. */
export function* pageEnds(): Generator<string> {
  for (let n = 0; ; n += 1) {
    const id = `5e6e7d00-0000-4000-8000-${String(n).padStart(12, "0")}`;
    if (crc32(id) % cuts.pageModulus === 0) yield id;
  }
}

/** Ids after which a segment ends as well. */
export const segmentEnds = (): Iterable<string> & Pick<IteratorObject<string>, "take"> =>
  pageEnds().filter((id) => crc32(id) % (cuts.pageModulus * cuts.segmentModulus) === 0);

/**
 * Adds `markets/odd.parquet` to a sample: hand-made markets with the sample's evidence, two of them with the lowest and
 * the highest id there can be, and `references` of a shape of their own.
 */
export async function writeOddMarkets(directory: string): Promise<void> {
  const from = quoted(join(directory, "markets", "part-00000.parquet"));
  const to = quoted(join(directory, "markets", "odd.parquet"));
  const pick = (words: readonly string[]) => `[${words.map(literal).join(", ")}][1 + n % ${words.length}]`;
  const ends = segmentEnds().take(times.length).map(quoted).toArray().join(", ");
  const endsSegment = `n % ${categories.length} = 7`;
  const digest = "md5(concat('odd ', n))";
  const id = `CASE WHEN n = 0 THEN '00000000-0000-0000-0000-000000000000'
    WHEN n = 1 THEN 'ffffffff-ffff-ffff-ffff-ffffffffffff'
    WHEN ${endsSegment} THEN [${ends}][1 + n // ${categories.length}]
    ELSE concat_ws('-', ${digest}[1:8], ${digest}[9:12], ${digest}[13:16], ${digest}[17:20], ${digest}[21:32]) END`;
  const reference = `{'title': question, 'pages': [n, NULL],
    'more': {'ratio': n / 7, 'sure': n % 2 = 0, 'none': NULL}}`;
  const dimensions = `list_transform(dimensions, lambda d: struct_pack(key := d.key, name := d.name,
    score := CASE n % 3 WHEN 0 THEN 0 WHEN 1 THEN 100 ELSE d.score END, weight := d.weight,
    description := d.description, evidence := d.evidence, "references" := [${reference}, NULL],
    computation := d.computation))`;
  await runSql(
    directory,
    `COPY (SELECT * EXCLUDE (n, file_row_number)
        REPLACE (${id} AS id, concat('odd-', n) AS slug, ${pick(questions)} AS question,
          ${pick(categories)} AS category, ${pick(outcomes)} AS resolved_outcome,
          ${pick(versions)} AS formula_version, ${pick(versions.slice(0, 3))} AS weight_version,
          CASE WHEN ${endsSegment} THEN resolved_at ELSE ${pick(times)}::TIMESTAMPTZ END AS resolved_at,
          n % 2 = 0 AS disputed, CASE n % 5 WHEN 0 THEN 300 WHEN 1 THEN 1000 ELSE composite END AS composite,
          ${dimensions} AS dimensions)
      FROM read_parquet(${from}, file_row_number = true) JOIN range(${count}) AS odd (n)
        ON file_row_number = n % (SELECT count(*) FROM read_parquet(${from})))
     TO ${to} (FORMAT parquet, ROW_GROUP_SIZE 100)`,
  );
}

/** Adds `markets/more.parquet`: `count` new markets at times spread over the sample's, the first one at its end. */
export async function addMarkets(directory: string, count: number): Promise<void> {
  const from = quoted(join(directory, "markets", "part-00000.parquet"));
  const to = quoted(join(directory, "markets", "more.parquet"));
  await runSql(
    directory,
    `COPY (SELECT * EXCLUDE (file_row_number) REPLACE (concat('ffff', id[5:]) AS id,
        CASE file_row_number WHEN 0 THEN TIMESTAMPTZ '2026-01-01 00:00:00+00' ELSE resolved_at END AS resolved_at)
      FROM read_parquet(${from}, file_row_number = true) WHERE file_row_number < ${count})
     TO ${to} (FORMAT parquet)`,
  );
}

/** A string literal of SQL; control characters are spelled out, so that none can end the statement. */
function literal(text: string): string {
  const parts = text.split(/(\p{Cc})/u).filter((part) => part !== "");
  const spelled = parts.map((part) => (/\p{Cc}/u.test(part) ? `chr(${part.codePointAt(0)})` : quoted(part)));
  return `concat(${["''", ...spelled].join(", ")})`;
}

/** Ids whose hashes have the same first 32 bits. */
export const sameHash = [812_116, 2_802_888, 3_498_211].map(
  (n) => `00000000-0000-4000-9000-${String(n).padStart(12, "0")}`,
) as [string, string, string];

import { historyDays, ScoreDimensions, ScoreHistory } from "../../schemas/envelopes.ts";
import { type ProtocolDimensionKey, protocolDimensionKeys } from "../../schemas/protocol.ts";
import { listEntryOf, ProtocolScore, ScorePoint } from "../../schemas/records.ts";
import { bounds } from "../../schemas/scales.ts";
import type { Manifest, NamedObject } from "../../schemas/store/snapshot.ts";
import { renderList } from "../publish/score-objects.ts";
import { CorruptObjectError } from "../store/errors.ts";
import { layout } from "../store/layout.ts";
import { parseObject } from "../store/objects.ts";
import type { StoreCheck } from "./store-check.ts";

/**
 * Checks the score records of a snapshot, and that the list, histories, dimensions and manifest agree with them. Throws
 * CorruptObjectError only for the manifest.
 */
export async function checkScores(
  check: StoreCheck,
  manifestKey: string,
  { scores, newestUpdatedAt }: Manifest,
): Promise<void> {
  const records = await readAll(check, scores.records, layout.publicObject, ProtocolScore);
  const whole = records.size === Object.keys(scores.records).length;
  const entries = [...records.values()].map(listEntryOf);
  const rendered = whole ? renderList(entries) : undefined;
  const listKey = layout.publicObject(scores.list.hash);
  await check.attemptRead(listKey, scores.list, (bytes) => {
    if (rendered && !rendered.list.equals(bytes))
      throw new CorruptObjectError(listKey, "it does not match the records");
  });
  const percentileOf = whole ? percentilesOf([...records.values()]) : undefined;
  const histories = await readAll(check, scores.histories, layout.privateObject, ScoreHistory, (history) =>
    historyFault(history, records.get(history.slug)),
  );
  await readAll(check, scores.dimensions, layout.privateObject, ScoreDimensions, (dimensions) => {
    const { slug } = dimensions;
    const fault = dimensionsFault(dimensions, histories.get(slug), percentileOf);
    return fault ?? recordFault(dimensions, records.get(slug));
  });
  if (rendered && rendered.newestUpdatedAt !== newestUpdatedAt) {
    throw new CorruptObjectError(manifestKey, "its newestUpdatedAt differs from its newest score's");
  }
}

/** Only valid objects, by slug. */
async function readAll<T extends { slug: string }>(
  check: StoreCheck,
  refs: Readonly<Record<string, NamedObject>>,
  keyOf: (hash: string) => string,
  schema: Parameters<typeof parseObject<T>>[2],
  faultOf: (object: T) => string | undefined = () => undefined,
): Promise<Map<string, T>> {
  const objects = new Map<string, T>();
  await check.each(Object.entries(refs), async ([slug, ref], part) => {
    const key = keyOf(ref.hash);
    const object = await part.attemptRead(key, ref, (bytes) => {
      const parsed = parseObject(key, bytes, schema);
      const fault = parsed.slug === slug ? faultOf(parsed) : `it belongs to ${parsed.slug}, not to ${slug}`;
      if (fault) throw new CorruptObjectError(key, fault);
      return parsed;
    });
    if (object) objects.set(slug, object);
  });
  return objects;
}

function historyFault({ count, points }: ScoreHistory, record: ProtocolScore | undefined) {
  if (count !== points.length) return "its count differs from the number of its points";
  const times = points.map(({ updatedAt }) => Date.parse(updatedAt));
  if (times.some((time, index) => index > 0 && time <= times[index - 1]!))
    return "its points are not in order";
  const days = (times.at(-1)! - times[0]!) / (24 * 3_600_000);
  if (days > historyDays) return `its points are more than ${historyDays} days apart`;
  const last = JSON.stringify(points.at(-1));
  return record && last !== JSON.stringify(pointOf(record))
    ? "its last point differs from the record"
    : undefined;
}

/** No object holds the scores of seven days ago, so `change7d` can only be checked for impossible values. */
function dimensionsFault(
  { dimensions }: ScoreDimensions,
  history: ScoreHistory | undefined,
  percentileOf: ((key: ProtocolDimensionKey, score: number) => number) | undefined,
): string | undefined {
  for (const { key, score, change7d, percentile } of dimensions) {
    const before = score - change7d;
    const possible = before >= bounds.score.min && before <= bounds.score.max;
    if (!possible || (history?.count === 1 && change7d !== 0)) return `its change7d of ${key} is impossible`;
    if (percentileOf && percentileOf(key, score) !== percentile)
      return `its percentile of ${key} does not match the records`;
  }
  return undefined;
}

function recordFault(detail: ScoreDimensions, record: ProtocolScore | undefined): string | undefined {
  if (!record) return undefined;
  const same = detail.updatedAt === record.updatedAt && detail.evidenceHash === record.evidenceHash;
  return same && detail.dimensions.every(({ key, score }) => record.dimensions[key] === score)
    ? undefined
    : "its scores differ from the record's";
}

/** Percent rank times 100, rounded half up. */
function percentilesOf(
  records: readonly ProtocolScore[],
): (key: ProtocolDimensionKey, score: number) => number {
  const scores = new Map(
    protocolDimensionKeys.map((key) => [key, records.map(({ dimensions }) => dimensions[key])]),
  );
  return (key, score) => {
    const below = scores.get(key)!.filter((other) => other < score).length;
    return records.length === 1 ? 0 : Math.round((100 * below) / (records.length - 1));
  };
}

const pointOf = (record: ProtocolScore) =>
  ScorePoint.parse(
    Object.fromEntries(Object.entries(record).filter(([name]) => Object.hasOwn(ScorePoint.shape, name))),
  );

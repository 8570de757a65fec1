import type { BatchRequest } from "../../schemas/envelopes.ts";
import { isFault } from "../../schemas/errors.ts";
import { commitAsOf, weakTag } from "../../snapshots/read/answer.ts";
import type { AsOf } from "../../snapshots/read/query/query.ts";
import {
  type FoundScore,
  findScore,
  findScoreAsOf,
  readBatch,
  readScore,
  type ScoreName,
  scoreNamed,
  supersededScore,
  TierLog,
} from "../../snapshots/read/scores.ts";
import type { Exchange, Request, Response } from "../exchange.ts";
import {
  type Answer,
  askedReply,
  type Reply,
  tagsOf,
  textContent,
  textReply,
  uncachedText,
} from "../reply/reply.ts";
import type { AppServices } from "../services.ts";

/** Answers about scores (INTERFACE 4.1 to 4.4). */
export function scoreAnswers(services: AppServices) {
  const { catalog } = services;
  const tierLog = new TierLog(catalog);

  /** Public data: from the origin or, for an earlier snapshot, from the store. */
  const publicAnswer =
    (nameOf: (exchange: Exchange) => ScoreName): Answer =>
    (exchange, request, response) => {
      const { asOf } = exchange;
      const name = nameOf(exchange);
      return asOf ? storedAsOf(asOf, name) : originReply(services, name, request, response);
    };

  /** Data that a plan pays for: from the store and never from the origin. */
  const privateAnswer =
    (kind: "histories" | "dimensions"): Answer =>
    ({ params, asOf }) => {
      const name = scoreNamed(catalog, kind, String(params.slug));
      return asOf ? storedAsOf(asOf, name) : stored(findScore(catalog.requireCurrent(), name), name);
    };

  const stored = (found: FoundScore, name: ScoreName): Reply => ({
    ...headOf(found),
    content: async (coding) => textContent(await readScore(catalog, found, name), coding),
  });

  /** The manifest of an earlier snapshot may have to be read first. */
  async function storedAsOf(asOf: AsOf, name: ScoreName): Promise<Reply> {
    const commit = await commitAsOf(catalog, asOf);
    const etag = weakTag(commit, "scores", JSON.stringify(name));
    const plan = () => findScoreAsOf(catalog, commit, name);
    return askedReply(catalog, { commit, etag, plan }, async (found, coding) =>
      textContent(await readScore(catalog, found, name), coding),
    );
  }

  return {
    listScores: publicAnswer(() => "list"),
    getScore: publicAnswer(({ params }) => scoreNamed(catalog, "records", String(params.slug))),
    // From the store, since a forwarded request can fetch only one object.
    batchScores: async ({ body }) => {
      const { json, snapshotId } = await readBatch(catalog, (body as BatchRequest).slugs);
      return uncachedText(json, snapshotId);
    },
    tiers: async () => {
      const { json, hash, snapshotId } = await tierLog.read();
      return textReply(json, snapshotId, hash);
    },
    scoreHistory: privateAnswer("histories"),
    scoreDimensions: privateAnswer("dimensions"),
  } satisfies Record<string, Answer>;
}

/**
 * A public object of the current snapshot or, while the origin is away, of the newest older snapshot that has it in
 * memory.
 */
function originReply(services: AppServices, name: ScoreName, request: Request, response: Response): Reply {
  const { catalog, objects, origin, metrics, now } = services;
  const cached = "private, max-age=60, stale-while-revalidate=600";
  const found = findScore(catalog.requireCurrent(), name);
  const bodiesOf = ({ object }: FoundScore) =>
    objects.get(object, () => origin.fetch(request, response, object));
  return {
    ...headOf(found),
    ...(!response.locals.caller?.keyed && { cacheControl: cached }),
    async content(coding) {
      try {
        return { body: [(await bodiesOf(found))[coding]] };
      } catch (error) {
        const isAway = isFault(error, "UPSTREAM_ERROR", "UPSTREAM_TIMEOUT");
        const older = isAway ? supersededScore(catalog, name, objects.has) : undefined;
        if (!older) throw error;
        metrics.stale.inc();
        // Age tells how long its snapshot has been superseded.
        const age = Math.max(0, Math.floor((now() - Date.parse(older.supersededAt)) / 1000));
        const headers = { Age: age, "Cache-Status": `prs; hit; ttl=-${age}; detail=origin-away` };
        return { body: [(await bodiesOf(older))[coding]], instead: { ...headOf(older), headers } };
      }
    },
  };
}

const headOf = ({ commit, object }: FoundScore) => ({
  snapshotId: commit.snapshotId,
  etag: tagsOf(object.hash),
});

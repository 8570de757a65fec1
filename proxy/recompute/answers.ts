import { IndexParts } from "../../snapshots/read/index/index-parts.ts";
import { askAbsence, askIndex } from "../../snapshots/read/index/market-index.ts";
import { parseAbsenceQuery, parsePartsQuery } from "../../snapshots/read/query/query.ts";
import { paymentOf, type Request, type Response } from "../exchange.ts";
import { type Answer, askedReply, jsonContent, type Reply } from "../reply/reply.ts";
import { fileReply } from "../reply/stream.ts";
import type { AppServices } from "../services.ts";

/**
 * What readers evaluate queries from by themselves: the index with its proof, its parts, and absence (INTERFACE 4.12).
 */
export function recomputeAnswers({ catalog, publicLog }: Pick<AppServices, "catalog" | "publicLog">) {
  const parts = new IndexParts(catalog);
  /** A reply with parts of indexes, which belong to no single snapshot. */
  const partsReply = async (
    request: Request,
    { locals }: Response,
    hashes: string[],
    ranges = true,
  ): Promise<Reply> => ({
    ...fileReply(request, await parts.open(hashes, ranges, paymentOf(locals))),
    cacheControl: "private, max-age=31536000, immutable",
  });
  return {
    marketIndex: async (_request, { locals }) =>
      askedReply(catalog, await askIndex(catalog, publicLog, locals.asOf), jsonContent),
    indexParts: async (request, response) =>
      partsReply(request, response, parsePartsQuery(response.locals.parameters!), false),
    indexPart: async (request, response) => partsReply(request, response, [String(request.params.hash)]),
    marketAbsence: async (_request, { locals }) => {
      const id = parseAbsenceQuery(locals.parameters!);
      const asked = await askAbsence(catalog, publicLog, id, locals.asOf, paymentOf(locals));
      return askedReply(catalog, asked, jsonContent);
    },
  } satisfies Record<string, Answer>;
}

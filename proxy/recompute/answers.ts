import { indexParts, parsePartsQuery } from "../../snapshots/read/index/index-parts.ts";
import { askAbsence, askIndex, parseAbsenceQuery } from "../../snapshots/read/index/market-index.ts";
import { type Exchange, paymentOf, type Request } from "../exchange.ts";
import { type Answer, askedReply, jsonContent, type Reply } from "../reply/reply.ts";
import { fileReply } from "../reply/stream.ts";
import type { AppServices } from "../services.ts";

/** What readers need to evaluate queries: the index with its proof, its parts, and absence (INTERFACE 4.12). */
export function recomputeAnswers({ catalog, publicLog }: Pick<AppServices, "catalog" | "publicLog">) {
  const openParts = indexParts(catalog);
  /** A reply with parts of indexes, which belong to no single snapshot. */
  const partsReply = async (
    exchange: Exchange,
    request: Request,
    hashes: string[],
    ranges = true,
  ): Promise<Reply> => ({
    ...fileReply(request, await openParts(hashes, ranges, paymentOf(exchange))),
    cacheControl: "private, max-age=31536000, immutable",
  });
  return {
    marketIndex: async ({ asOf }) =>
      askedReply(catalog, await askIndex(catalog, publicLog, asOf), jsonContent),
    indexParts: async (exchange, request) =>
      partsReply(exchange, request, parsePartsQuery(exchange.parameters!), false),
    indexPart: async (exchange, request) => partsReply(exchange, request, [String(exchange.params.hash)]),
    marketAbsence: async (exchange) => {
      const id = parseAbsenceQuery(exchange.parameters!);
      const asked = await askAbsence(catalog, publicLog, id, exchange.asOf, paymentOf(exchange));
      return askedReply(catalog, asked, jsonContent);
    },
  } satisfies Record<string, Answer>;
}

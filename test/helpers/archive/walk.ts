import type { MarketPage } from "../../../schemas/envelopes.ts";
import type { ArchiveProxy, Query } from "../http/archive-proxy.ts";

/** Pages from the first to the last, by following cursors; the first request has the filters, the others none. */
export async function* cursorWalk(
  proxy: Pick<ArchiveProxy, "page">,
  query: Query,
): AsyncGenerator<MarketPage> {
  let page = await proxy.page(query);
  yield page;
  while (page.nextCursor !== null) {
    page = await proxy.page({ cursor: page.nextCursor });
    yield page;
  }
}

export function idsOf(page: MarketPage): string[] {
  return page.markets.map((market) => market.id);
}

/** All pages of a walk. */
export async function pagesOf(walk: AsyncIterable<MarketPage>): Promise<MarketPage[]> {
  const pages: MarketPage[] = [];
  for await (const page of walk) pages.push(page);
  return pages;
}

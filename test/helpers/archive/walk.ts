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

/** Pages from the first to the last, by number. */
export async function* pageWalk(proxy: Pick<ArchiveProxy, "page">, query: Query): AsyncGenerator<MarketPage> {
  for (let number = 1; ; number += 1) {
    const page = await proxy.page({ ...query, page: number });
    yield page;
    if (page.nextCursor === null) return;
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

import { join } from "node:path";
import { afterAll, beforeAll } from "vitest";
import type { HistoricalMarket } from "../../../schemas/records.ts";
import { directoryStorage } from "../../../snapshots/store/backends/directory.ts";
import type { Storage } from "../../../snapshots/store/storage.ts";
import { sourceMarkets } from "../archive/source-rows.ts";
import { cursorWalk, pagesOf } from "../archive/walk.ts";
import { publishSources, writeSources } from "../publish/sample-sources.ts";
import { testFolder } from "../store/test-folder.ts";
import { type ArchiveProxy, startArchiveProxy } from "./archive-proxy.ts";

/** Sources, published and served. */
export interface ServedArchive {
  /** Of the Parquet sources. */
  directory: string;
  folder: string;
  storage: Storage;
  proxy: ArchiveProxy;
  /** The whole archive as served without filters. */
  markets: HistoricalMarket[];
  /** The same as the sources have it. */
  expected(): Promise<HistoricalMarket[]>;
}

/** Publishes and serves sources for the tests of a file; call it outside of tests, and read it inside. */
export function serveArchive(makeSources: (directory: string) => Promise<string>): ServedArchive {
  const folder = testFolder();
  const storage = directoryStorage(join(folder, "store"));
  // The proxy and the markets are there before the first test.
  let read: Promise<HistoricalMarket[]> | undefined;
  const expected = () => (read ??= sourceMarkets(served.directory));
  const served = { folder, storage, expected } as ServedArchive;
  beforeAll(async () => {
    served.directory = await makeSources(join(folder, "sources"));
    await publishSources(served.directory, storage, folder);
    served.proxy = await startArchiveProxy(storage);
    const pages = await pagesOf(cursorWalk(served.proxy, { pageSize: 500 }));
    served.markets = pages.flatMap((page) => page.markets);
  });
  afterAll(() => served.proxy?.stop());
  return served;
}

/** A sample with hand-made markets, published and served. */
export function serveSample(options: Parameters<typeof writeSources>[1] = {}): ServedArchive {
  return serveArchive((directory) => writeSources(directory, options));
}

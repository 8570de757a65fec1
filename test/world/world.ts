import type { Server as HttpServer } from "node:http";
import type { QuotaStore } from "../../proxy/quota/counters.ts";
import type { KeyRing } from "../../snapshots/keys/keys.ts";
import type { Catalog } from "../../snapshots/read/catalog/catalog.ts";
import type { Exports } from "../../snapshots/read/catalog/exports.ts";
import type { PublicLog } from "../../snapshots/read/catalog/public-log.ts";
import type { changesReader } from "../../snapshots/read/changes/changes.ts";
import type { Judge } from "./judge.ts";
import type { Kernel, Process } from "./kernel/kernel.ts";
import type { Store } from "./kernel/store.ts";
import type { Plan } from "./plan.ts";

/** What was read of keys: their ids, and when they end, in epoch milliseconds. */
export interface KeysRead {
  known: Set<string>;
  ends: Map<string, number>;
}

/** What a proxy answers from. */
export interface Server {
  process: Process;
  catalog: Catalog;
  exports: Exports;
  publicLog: PublicLog;
  changes: ReturnType<typeof changesReader>;
  keys: KeyRing;
  /** What the store had of keys when the proxy last read all of it. */
  read?: KeysRead;
  /** Answers requests of HTTP, once there was one. */
  gate?: HttpServer;
}

/** The counters that all proxies of a world share, and what was served by account and day. */
export interface Counted {
  store: QuotaStore | undefined;
  served: Map<string, number>;
}

/** Everything that one seed decides. */
export interface World {
  plan: Plan;
  kernel: Kernel;
  judge: Judge;
  store: Store;
  /** The proxies that run now. */
  servers: Server[];
  counted: Counted;
  /** The keys that operators have made, by their ids. */
  issued: Map<string, string>;
}

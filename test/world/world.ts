import type { Catalog } from "../../snapshots/read/catalog/catalog.ts";
import type { ChangesReader } from "../../snapshots/read/changes/changes.ts";
import type { Judge } from "./judge.ts";
import type { Kernel, Process } from "./kernel.ts";
import type { Plan } from "./plan.ts";
import type { Store } from "./store.ts";

/** What a proxy answers from. */
export interface Server {
  process: Process;
  catalog: Catalog;
  changes: ChangesReader;
}

/** Everything that one seed decides. */
export interface World {
  plan: Plan;
  kernel: Kernel;
  judge: Judge;
  store: Store;
  /** The proxies that run now. */
  servers: Server[];
}

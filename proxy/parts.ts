import type { Logger } from "pino";
import type { KeyRing } from "../snapshots/keys/ring.ts";
import type { Catalog } from "../snapshots/read/catalog/catalog.ts";
import type { Exports } from "../snapshots/read/catalog/exports.ts";
import type { PublicLog } from "../snapshots/read/catalog/public-log.ts";
import type { Trust } from "./access/client-address.ts";
import type { Limits } from "./config.ts";
import type { LiveFeed } from "./feed/live-feed.ts";
import type { Origin, PublicObjects } from "./origin/origin.ts";
import type { Quota } from "./quota/quota.ts";
import type { StaticFile } from "./site/static-file.ts";
import type { Metrics } from "./telemetry/metrics.ts";
import type { Recorder } from "./telemetry/recorder.ts";

/** What a proxy is made of. */
export interface ProxyParts {
  catalog: Catalog;
  exports: Exports;
  publicLog: PublicLog;
  keys: KeyRing;
  quota: Quota;
  objects: PublicObjects;
  origin: Origin;
  feed: LiveFeed;
  /** Seconds since the store was last polled with success, for snapshots or for keys, whichever is longer. */
  pollAge: () => number;
  metrics: Metrics;
  /** Files that are served as they are. */
  files: readonly StaticFile[];
  /** If undefined, no peer is trusted, and a peer that looks like a load balancer is worth a warning. */
  trustProxy?: Trust | undefined;
  /** The service's own address, where it is known. */
  apiUrl?: URL | undefined;
  /** Where a key comes from, as the address of a link, where it is known. */
  contact?: string | undefined;
  staleAfterSeconds: number;
  /** How long a connection may be idle. */
  keepAliveSeconds: number;
  limits: Limits;
  /** Epoch milliseconds. */
  now: () => number;
  log: Logger;
}

/** What the app and the live feed's handshakes stand on. */
export interface AppParts extends ProxyParts {
  recorder: Recorder;
  /** Whether new connections are accepted. */
  listening: () => boolean;
}

import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import type { Logger } from "pino";
import type { KeyRing } from "../snapshots/keys/keys.ts";
import type { Catalog } from "../snapshots/read/catalog/catalog.ts";
import type { Exports } from "../snapshots/read/catalog/exports.ts";
import type { PublicLog } from "../snapshots/read/catalog/public-log.ts";
import type { Trust } from "./access/identity.ts";
import type { Limits } from "./config.ts";
import type { Origin, PublicObjects } from "./origin/origin.ts";
import type { Quota } from "./quota/quota.ts";
import type { ProblemReply } from "./reply/problem.ts";
import type { StaticFile } from "./site/static-files.ts";
import type { Metrics, Recorder } from "./telemetry/telemetry.ts";

/** What does more than answer requests: it follows what is polled, and takes over connections. */
export interface Companion {
  /** Whether a request asks for the companion's protocol, whoever sends it. */
  isHandshake: (request: IncomingMessage) => boolean;
  /**
   * Takes over the connection of such a request, or returns the refusal to send. Those requests never reach the app,
   * because Node has no response for them, but they pass the same checks in the same order. The connection is untouched
   * until all have passed.
   */
  takeOver: (request: IncomingMessage, socket: Socket, head: Buffer) => Promise<ProblemReply | undefined>;
  /** The store was looked at, with success or not: for snapshots, or for keys. */
  polled: Record<"snapshot" | "keys", () => void>;
  /** Ends the connections that were taken over. */
  close: () => void;
}

export interface ProxyServices {
  catalog: Catalog;
  exports: Exports;
  publicLog: PublicLog;
  keys: KeyRing;
  quota: Quota;
  objects: PublicObjects;
  origin: Origin;
  companions: Record<string, (services: AppServices) => Companion>;
  /** Seconds since the store was last polled with success, for snapshots or for keys, whichever is longer. */
  pollAge: () => number;
  metrics: Metrics;
  files: readonly StaticFile[];
  /** If undefined, no peer is trusted, and a peer that looks like a load balancer is worth a warning. */
  trustProxy?: Trust | undefined;
  /** The service's own address, where it is known. */
  apiUrl?: URL | undefined;
  /** Where a key comes from, as the address of a link, where it is known. */
  contact?: string | undefined;
  staleAfterSeconds: number;
  keepAliveSeconds: number;
  limits: Limits;
  /** Epoch milliseconds. */
  now: () => number;
  log: Logger;
}

export interface AppServices extends ProxyServices {
  record: Recorder;
  listening: () => boolean;
}

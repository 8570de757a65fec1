import { totalmem } from "node:os";
import { constrainedMemory } from "node:process";
import { z } from "zod";
import { Fault } from "../schemas/errors.ts";
import { contactAt } from "../schemas/names.ts";
import { integerOf } from "../schemas/shapes.ts";
import type { S3Limits } from "../snapshots/store/backends/s3.ts";
import { messageOf } from "../snapshots/store/errors.ts";
import { cacheDisk, isStoreLocation, storeAddresses } from "../snapshots/store/open-storage.ts";
import { parseTrust } from "./access/identity.ts";
import { isUrl, parseRedisUrl } from "./quota/redis.ts";

/**
 * Deadlines in seconds, and bounds of what is open at a time. A deadline is always longer than those of what it waits
 * for: otherwise a caller would be cut off before the proxy could say what is wrong.
 */
export const defaultLimits = {
  /** The head of a request, from its first byte to its last. */
  headSeconds: 10,
  requestSeconds: 25,
  /** A connection on which no byte moves, for example because the client does not read. */
  stalledSeconds: 30,
  answerSeconds: 25,
  /** Sending an answer; in an answer with all rows, every 500 of them. */
  sendSeconds: 180,
  /** A command of a quota store. Far longer than a round trip, far shorter than a caller waits. */
  quotaSeconds: 1,
  /** Opening the quota file: a network folder may hang for good. */
  quotaOpenSeconds: 10,
  originSeconds: 10,
  /** One poll of the store for a snapshot or for keys. Loading the indexes of a snapshot takes many operations. */
  roundSeconds: 120,
  store: { connectSeconds: 2, attemptSeconds: 4, operationSeconds: 15, attempts: 3 } satisfies S3Limits,
  /** Connections of one process. Before they are all taken, those that have been idle for longest are closed. */
  connections: 2000,
};

export type Limits = typeof defaultLimits;

/** The environment cannot be used. The message has one line for each faulty variable, which it names. */
export const configError = (message: string) => new Fault("CONFIG", message);

const leastCacheBytes = 1024 * 1024;
// By default the cache of stored objects takes at most an eighth of the memory.
const cacheShare = 8;

const logLevels = ["trace", "debug", "info", "warn", "error", "fatal", "silent"] as const;

function integer(min: number, max: number) {
  const value = z.int(`must be an integer from ${min} to ${max}`);
  return z
    .string()
    .transform((text) => integerOf(text, min, max))
    .pipe(value);
}

function oneOf<const T extends readonly string[]>(values: T) {
  return z.enum(values, `must be one of ${values.join(", ")}`);
}

/** Lifts a parser into zod. The parser's error must say what is expected. */
const parsedBy = <T>(parse: (text: string) => T) =>
  z.string().transform((text, context) => {
    try {
      return parse(text);
    } catch (error) {
      context.addIssue(`must be ${messageOf(error)}`);
      return z.NEVER;
    }
  });

const webAddress = parsedBy((text) => {
  const url = URL.parse(text);
  const usable = url && /^https?:$/.test(url.protocol) && !url.username && !url.password;
  if (usable && !url.search && !url.hash) return url;
  throw new Error("an http or https address without credentials, query or fragment");
});

const quotaStore = parsedBy((text) => {
  if (isUrl(text)) parseRedisUrl(text);
  return text;
});

/** The machine's memory in bytes, or the container's share of it. */
function usableMemory(): number {
  // Without a limit constrainedMemory() is 0 or more than the machine has.
  return Math.min(totalmem(), constrainedMemory() || Number.POSITIVE_INFINITY);
}

/** The configuration; `pollSeconds` is read from POLL_SECONDS, and so on. */
export const Environment = z.object({
  host: z.string().default("127.0.0.1"),
  port: integer(0, 65_535).default(8080),
  metricsPort: integer(1, 65_535).optional(),
  webConcurrency: integer(1, 256).default(1),
  snapshotStore: z
    .string("is missing; it names the store to serve, a directory or s3://bucket/prefix")
    .refine(isStoreLocation, `must be ${storeAddresses}`),
  publicOrigin: webAddress.optional(),
  apiUrl: webAddress.optional(),
  contact: parsedBy(contactAt).optional(),
  trustPolicy: z.string().optional(),
  trustedKeys: z.string().optional(),
  checkpointFile: z.string().optional(),
  quotaStore: quotaStore.default(".local/quota.sqlite"),
  quotaOnFailure: oneOf(["local", "open", "closed"]).default("local"),
  trustProxy: parsedBy(parseTrust).optional(),
  pollSeconds: integer(1, 3600).default(5),
  staleAfterSeconds: integer(1, 31_536_000).default(93_600),
  cacheBytes: integer(leastCacheBytes, Number.MAX_SAFE_INTEGER).optional(),
  cacheDir: z.string().optional(),
  cacheDiskBytes: integer(cacheDisk.leastBytes, Number.MAX_SAFE_INTEGER).default(cacheDisk.defaultBytes),
  logLevel: oneOf(logLevels).default("info"),
  // More than the 600 s of the load balancer with the longest default for idle connections, so that balancers close
  // first.
  keepAliveSeconds: integer(1, 86_400).default(620),
  shutdownSeconds: integer(0, 3600).default(10),
});
export type Setting = keyof typeof Environment.shape;
export const settings = Object.keys(Environment.shape) as Setting[];

/** The proxy's configuration, validated. `port` 0 takes a free port. */
export type Config = z.infer<typeof Environment> & {
  /** Per process. */
  cacheBytes: number;
};

export const variableName = (setting: string) =>
  setting.replace(/[A-Z]/g, (capital) => `_${capital}`).toUpperCase();

/**
 * An empty variable counts as absent. `memory` is what all processes together may use, in bytes. The message of the
 * error never repeats a value.
 */
export function readConfig(env: Record<string, string | undefined>, memory = usableMemory()): Config {
  const entries = settings.map((setting) => [setting, env[variableName(setting)] || undefined]);
  const result = Environment.safeParse(Object.fromEntries(entries));
  if (!result.success) {
    const lines = result.error.issues.map(
      ({ path, message }) => `${variableName(path.join("."))} ${message}.`,
    );
    throw configError(lines.join("\n"));
  }
  const share = Math.floor(memory / cacheShare / result.data.webConcurrency);
  return { ...result.data, cacheBytes: result.data.cacheBytes ?? Math.max(leastCacheBytes, share) };
}

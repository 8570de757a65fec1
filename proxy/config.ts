import { totalmem } from "node:os";
import { constrainedMemory } from "node:process";
import { z } from "zod";
import { layout } from "../snapshots/store/layout.ts";
import { isStoreLocation } from "../snapshots/store/open-storage.ts";
import { parseTrust, type Trust } from "./access/client-address.ts";
import type { FailurePolicy } from "./quota/quota.ts";

/** The proxy's configuration, known to be sound. */
export interface Config {
  host: string;
  /** 0 takes a free port. */
  port: number;
  /** A directory or `s3://bucket/prefix`. */
  snapshotStore: string;
  /** Base of the public tree; undefined: the process serves it itself. */
  publicOrigin: URL | undefined;
  /** Path of the quota file, or the address of a Redis server. */
  quotaStore: string;
  quotaOnFailure: FailurePolicy;
  /** Loopback port of the metrics; undefined: none. */
  metricsPort: number | undefined;
  /** Processes that share the port. */
  webConcurrency: number;
  /** Undefined: nobody is trusted, and that was not said on purpose. */
  trustProxy: Trust | undefined;
  pollSeconds: number;
  staleAfterSeconds: number;
  /** Of each process. */
  cacheBytes: number;
  logLevel: string;
  shutdownSeconds: number;
}

/** The environment is not usable; one line per variable, each naming it. */
export class ConfigError extends Error {
  override readonly name = "ConfigError";
}

const leastCacheBytes = 1024 * 1024;
/** Where nothing else is said, stored objects take at most one part in so many of the memory. */
const cacheShare = 8;

const logLevels = ["trace", "debug", "info", "warn", "error", "fatal", "silent"] as const;

function integer(min: number, max: number) {
  const message = `must be an integer from ${min} to ${max}`;
  // Digits first: Number() would also take "", "1e3" and " 5".
  return z
    .string()
    .regex(/^(0|[1-9]\d{0,15})$/, message)
    .transform(Number)
    .pipe(z.number().min(min, message).max(max, message));
}

function oneOf<const T extends readonly string[]>(values: T) {
  return z.enum(values, `must be one of ${values.join(", ")}`);
}

const publicOrigin = z.string().transform((text, context) => {
  const url = URL.parse(text);
  const usable = url && /^https?:$/.test(url.protocol) && !url.username && !url.password;
  if (usable && !url.search && !url.hash) return url;
  context.addIssue("must be an http or https address without credentials, query or fragment");
  return z.NEVER;
});

const trustProxy = z.string().transform((text, context) => {
  try {
    return parseTrust(text);
  } catch (error) {
    context.addIssue(`must be ${error instanceof Error ? error.message : "a number of hops or networks"}`);
    return z.NEVER;
  }
});

const quotaStore = z.string().refine((text) => {
  if (!/^[a-z][a-z0-9+.-]*:\/\//i.test(text)) return true;
  return isRedisAddress(text) && URL.canParse(text);
}, "must be a file path or redis://… (rediss://… with TLS)");

/** The machine's memory, or what a container has of it. */
function usableMemory(): number {
  // 0 or beyond all memory where there is no bound.
  return Math.min(totalmem(), constrainedMemory() || Number.POSITIVE_INFINITY);
}

/** Whether a QUOTA_STORE names a Redis server rather than a file. */
export function isRedisAddress(quotaStore: string): boolean {
  return /^rediss?:\/\//.test(quotaStore);
}

/** Descriptions are what README and `--help` tell; `otherwise` stands for a default that is no fixed value. */
const Environment = z.object({
  HOST: z.string().default("127.0.0.1").describe("address on which it listens"),
  PORT: integer(0, 65_535).default(8080).describe("port on which it listens; 0 takes a free one"),
  METRICS_PORT: integer(1, 65_535)
    .optional()
    .describe("serves `GET /metrics` for Prometheus, on 127.0.0.1 alone"),
  WEB_CONCURRENCY: integer(1, 256)
    .default(1)
    .describe("processes that share the port; each holds its own index and cache"),
  SNAPSHOT_STORE: z
    .string("is missing; it names the store to serve, a directory or s3://bucket/prefix")
    .refine(isStoreLocation, "must be a directory or s3://bucket/prefix")
    .meta({ description: "the store: a directory or `s3://bucket/prefix`", otherwise: "none, required" }),
  PUBLIC_ORIGIN: publicOrigin.optional().meta({
    description: `the CDN that serves the public tree of the store; score objects are fetched from \`PUBLIC_ORIGIN/${layout.publicObjects}…\``,
    otherwise: "the process itself",
  }),
  QUOTA_STORE: quotaStore
    .default(".local/quota.sqlite")
    .describe(
      "where the daily counters are: a file, shared by the processes of one machine, or `redis://…` (`rediss://…` with TLS), shared by all machines",
    ),
  QUOTA_ON_FAILURE: oneOf(["local", "open", "closed"])
    .default("local")
    .describe(
      "while the counters cannot be reached: `local` counts in the memory of each process, `open` lets pass, `closed` refuses with 503",
    ),
  TRUST_PROXY: trustProxy
    .optional()
    .describe(
      "load balancers before it: a number of hops, or networks (`10.0.0.0/8,fd00::/8`); the client's address is then read from the end of `X-Forwarded-For`",
    ),
  POLL_SECONDS: integer(1, 3600)
    .default(5)
    .describe("how often a new snapshot and changed keys are looked for"),
  STALE_AFTER_SECONDS: integer(1, 31_536_000)
    .default(93_600)
    .describe("age of the last publish run from which `/api/v1/status` says `stale`"),
  CACHE_BYTES: integer(leastCacheBytes, Number.MAX_SAFE_INTEGER)
    .optional()
    .meta({
      description: `memory of each process for stored pages and scores; walks are fastest where the archive fits in (\`${layout.pages}\` of the store)`,
      otherwise: "an eighth of the memory, shared by the workers",
    }),
  LOG_LEVEL: oneOf(logLevels).default("info").describe("`trace` to `fatal`, or `silent`"),
  SHUTDOWN_SECONDS: integer(0, 3600)
    .default(10)
    .describe("how long requests under way may take after SIGTERM"),
});

/** Every variable of the configuration: its fixed default, or else the words for what holds without it. */
export const variables = Object.entries(Environment.shape).map(([name, schema]) => {
  const { description: meaning = "", otherwise = "none" } = schema.meta() ?? {};
  const fixed = schema.safeParse(undefined).data;
  return {
    name,
    meaning,
    fixed: fixed === undefined ? undefined : String(fixed),
    otherwise: String(otherwise),
  };
});

/** The variables for a terminal. */
export function variablesHelp(): string {
  const lines = variables.map(
    ({ name, meaning, fixed, otherwise }) => `  ${name} (default: ${fixed ?? otherwise})\n      ${meaning}`,
  );
  return lines.join("\n");
}

/**
 * Reads the configuration; a variable that is empty counts as left out. `memory` is what the processes may use, in
 * bytes. Throws ConfigError. Values are never echoed.
 */
export function readConfig(env: Record<string, string | undefined>, memory = usableMemory()): Config {
  const given = Object.entries(env).filter(([, value]) => value !== undefined && value !== "");
  const result = Environment.safeParse(Object.fromEntries(given));
  if (!result.success) {
    const lines = result.error.issues.map((issue) => `${issue.path.join(".")} ${issue.message}.`);
    throw new ConfigError(lines.join("\n"));
  }
  const values = result.data;
  return {
    host: values.HOST,
    port: values.PORT,
    metricsPort: values.METRICS_PORT,
    webConcurrency: values.WEB_CONCURRENCY,
    snapshotStore: values.SNAPSHOT_STORE,
    publicOrigin: values.PUBLIC_ORIGIN,
    quotaStore: values.QUOTA_STORE,
    quotaOnFailure: values.QUOTA_ON_FAILURE,
    trustProxy: values.TRUST_PROXY,
    pollSeconds: values.POLL_SECONDS,
    staleAfterSeconds: values.STALE_AFTER_SECONDS,
    cacheBytes:
      values.CACHE_BYTES ??
      Math.max(leastCacheBytes, Math.floor(memory / cacheShare / values.WEB_CONCURRENCY)),
    logLevel: values.LOG_LEVEL,
    shutdownSeconds: values.SHUTDOWN_SECONDS,
  };
}

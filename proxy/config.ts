import { totalmem } from "node:os";
import { constrainedMemory } from "node:process";
import { z } from "zod";
import { integerOf } from "../schemas/primitives.ts";
import { messageOf } from "../snapshots/store/error-code.ts";
import { layout } from "../snapshots/store/layout.ts";
import { isStoreLocation } from "../snapshots/store/open-storage.ts";
import { parseTrust } from "./access/client-address.ts";

/** The environment cannot be used. The message has one line per faulty variable and names it. */
export class ConfigError extends Error {
  override readonly name = "ConfigError";
}

const leastCacheBytes = 1024 * 1024;
// By default stored objects take at most an eighth of the memory.
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
    context.addIssue(`must be ${messageOf(error)}`);
    return z.NEVER;
  }
});

const quotaStore = z.string().refine((text) => {
  if (!/^[a-z][a-z0-9+.-]*:\/\//i.test(text)) return true;
  return isRedisAddress(text) && URL.canParse(text);
}, "must be a file path or redis://… (rediss://… with TLS) of one server, not of a cluster");

/** The machine's memory in bytes, or the container's share of it. */
function usableMemory(): number {
  // Without a limit constrainedMemory() is 0 or more than the machine has.
  return Math.min(totalmem(), constrainedMemory() || Number.POSITIVE_INFINITY);
}

/** Whether a QUOTA_STORE names a Redis server and not a file. */
export function isRedisAddress(quotaStore: string): boolean {
  return /^rediss?:\/\//.test(quotaStore);
}

/**
 * The configuration; `pollSeconds` is read from POLL_SECONDS, and so on. .github/deploy/OPERATING.md and `--help` show the descriptions.
 * `otherwise` describes a default that is not a fixed value.
 */
const Environment = z.object({
  host: z.string().default("127.0.0.1").describe("address on which it listens"),
  port: integer(0, 65_535).default(8080).describe("port on which it listens; 0 takes a free one"),
  metricsPort: integer(1, 65_535)
    .optional()
    .describe("serves `GET /metrics` for Prometheus, on 127.0.0.1 alone"),
  webConcurrency: integer(1, 256)
    .default(1)
    .describe("processes that share the port; each holds its own index and cache"),
  snapshotStore: z
    .string("is missing; it names the store to serve, a directory or s3://bucket/prefix")
    .refine(isStoreLocation, "must be a directory or s3://bucket/prefix")
    .meta({ description: "the store: a directory or `s3://bucket/prefix`", otherwise: "none, required" }),
  publicOrigin: publicOrigin.optional().meta({
    description: `the CDN that serves the public tree of the store; score objects are fetched from \`PUBLIC_ORIGIN/${layout.publicObjects}…\``,
    otherwise: "the store",
  }),
  trustedKeys: z.string().optional().meta({
    description:
      "a file with the public keys of publishers, one a line (`.pub` files of `signing-key`); then only commits that one of them signed are taken up",
    otherwise: "none: every commit is taken up",
  }),
  checkpointFile: z
    .string()
    .optional()
    .describe(
      "with TRUSTED_KEYS, a file in which the newest checkpoint is kept, so that nobody can replay an older one after a restart",
    ),
  quotaStore: quotaStore
    .default(".local/quota.sqlite")
    .describe(
      "where the daily counters are: a file, shared by the processes of one machine, or `redis://…` (`rediss://…` with TLS), shared by all machines; one server, with replicas behind its address or without, not a Redis Cluster",
    ),
  quotaOnFailure: oneOf(["local", "open", "closed"])
    .default("local")
    .describe(
      "while the counters cannot be reached: `local` counts in the memory of each process, `open` lets pass, `closed` refuses with 503",
    ),
  trustProxy: trustProxy
    .optional()
    .describe(
      "load balancers before it: a number of hops, or networks (`10.0.0.0/8,fd00::/8`); the client's address is then read from the end of `X-Forwarded-For`",
    ),
  pollSeconds: integer(1, 3600)
    .default(5)
    .describe("how often a new snapshot and changed keys are looked for"),
  staleAfterSeconds: integer(1, 31_536_000)
    .default(93_600)
    .describe("age of the last publish run from which `/api/v1/status` says `stale`"),
  cacheBytes: integer(leastCacheBytes, Number.MAX_SAFE_INTEGER)
    .optional()
    .meta({
      description: `memory of each process for stored pages and scores; walks are fastest where the archive fits in (\`${layout.pages}\` of the store)`,
      otherwise: "an eighth of the memory, shared by the workers",
    }),
  logLevel: oneOf(logLevels).default("info").describe("`trace` to `fatal`, or `silent`"),
  shutdownSeconds: integer(0, 3600)
    .default(10)
    .describe("how long requests under way may take after SIGTERM"),
});

/** The proxy's configuration, validated. `port` 0 takes a free port. */
export type Config = z.infer<typeof Environment> & {
  /** Per process. */
  cacheBytes: number;
};

function variableName(setting: string): string {
  return setting.replace(/[A-Z]/g, (capital) => `_${capital}`).toUpperCase();
}

/** Every environment variable with its fixed default, or a description of what applies without it. */
export const variables = Object.entries(Environment.shape).map(([setting, schema]) => {
  const { description: meaning = "", otherwise = "none" } = schema.meta() ?? {};
  const fixed = schema.safeParse(undefined).data?.toString();
  return { name: variableName(setting), meaning, fixed, otherwise: String(otherwise) };
});

/**
 * Reads the configuration. An empty variable counts as absent. `memory` is what all processes together may use, in bytes.
 * Throws ConfigError, which never repeats a value.
 */
export function readConfig(env: Record<string, string | undefined>, memory = usableMemory()): Config {
  const settings = Object.keys(Environment.shape);
  const given = settings.map((setting) => [setting, env[variableName(setting)] || undefined]);
  const result = Environment.safeParse(Object.fromEntries(given));
  if (!result.success) {
    const lines = result.error.issues.map(
      ({ path, message }) => `${variableName(path.join("."))} ${message}.`,
    );
    throw new ConfigError(lines.join("\n"));
  }
  const share = Math.floor(memory / cacheShare / result.data.webConcurrency);
  return { ...result.data, cacheBytes: result.data.cacheBytes ?? Math.max(leastCacheBytes, share) };
}

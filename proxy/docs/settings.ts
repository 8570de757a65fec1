import { layout } from "../../snapshots/store/layout.ts";
import { Environment, type Setting, settings, variableName } from "../config.ts";

/** The meaning of each setting, for .github/deploy/OPERATING.md and `--help`. */
const meanings: Record<Setting, string> = {
  host: "address on which it listens",
  port: "port on which it listens; 0 takes a free one",
  metricsPort: "serves `GET /metrics` for Prometheus, on 127.0.0.1 alone",
  webConcurrency: "processes that share the port; each holds its own index and cache",
  snapshotStore: "the store: a directory or `s3://bucket/prefix`",
  publicOrigin:
    "the CDN that serves the public tree of the store; score objects are fetched from " +
    `\`PUBLIC_ORIGIN/${layout.publicObject.prefix}…\``,
  apiUrl:
    "the service's own address as its callers see it, such as `https://scores.example.org`, or below a path of it; " +
    "addresses in answers begin with it, `/openapi.json` names it, and pages from there may call `/mcp`",
  contact:
    "where a key comes from, an https address or an e-mail address: the site, refusals for want of a key or a plan, and " +
    "`/openapi.json` name it",
  trustedKeys:
    "a file with the public keys of publishers, one a line (`.pub` files of `signing-key`); then only commits " +
    "that one of them signed are taken up",
  trustPolicy:
    "a file with a policy of logs, witnesses and quorum (c2sp.org/tlog-policy) in place of TRUSTED_KEYS; then only what satisfies it is taken up",
  checkpointFile:
    "with TRUST_POLICY or TRUSTED_KEYS, a file in which the newest checkpoint is kept, so that nobody can replay an older one " +
    "after a restart",
  quotaStore:
    "where the daily counters are: a file, shared by the processes of one machine, or `redis://…`, " +
    "`redis+sentinel://…` or `redis+cluster://…` (`rediss…` with TLS), shared by all machines, as Counters in Redis " +
    "below says",
  quotaOnFailure:
    "while the counters cannot be reached: `local` counts in the memory of each process, `open` lets pass, " +
    "`closed` refuses with 503",
  trustProxy:
    "load balancers before it: a number of hops, or networks (`10.0.0.0/8,fd00::/8`); the client's address is " +
    "then read from the end of `X-Forwarded-For`",
  pollSeconds: "how often a new snapshot and changed keys are looked for",
  staleAfterSeconds: "age of the last publish run from which `/api/v1/status` says `stale`",
  cacheBytes:
    "memory of each process for stored pages and scores; walks are fastest where the archive fits in " +
    `(\`${layout.page.prefix}\` of the store)`,
  cacheDir:
    "with a store in S3, a folder of this machine that keeps objects over restarts, for all processes that are given " +
    "it; each is hashed when it is read",
  cacheDiskBytes: "bytes of all files in CACHE_DIR; those that were not used for longest go first",
  logLevel: "`trace` to `fatal`, or `silent`",
  keepAliveSeconds:
    "how long a connection may be idle between two requests; longer than the balancer before the proxy keeps its own, " +
    "as Balancers and idle connections below says",
  shutdownSeconds: "how long requests under way may take after SIGTERM",
};
/** What applies without a setting that has no fixed default. */
const otherwise: Partial<Record<Setting, string>> = {
  snapshotStore: "none, required",
  publicOrigin: "the store",
  apiUrl:
    "none: addresses in answers of `/mcp` are paths, and those of Delta Sharing's files `http://` and the `Host` that was asked",
  trustPolicy: "none: every commit is taken up",
  trustedKeys: "none: every commit is taken up",
  cacheBytes: "an eighth of the memory, shared by the workers",
};

/** Every environment variable with its fixed default, or a description of what applies without it. */
export const variables = settings.map((setting) => ({
  name: variableName(setting),
  meaning: meanings[setting],
  fixed: Environment.shape[setting].safeParse(undefined).data?.toString(),
  otherwise: otherwise[setting] ?? "none",
}));

export function variablesHelp(): string {
  const lines = variables.map(
    ({ name, meaning, fixed, otherwise }) => `  ${name} (default: ${fixed ?? otherwise})\n      ${meaning}`,
  );
  return lines.join("\n");
}

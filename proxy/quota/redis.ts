import { setTimeout as delay } from "node:timers/promises";
import { Cluster, Command, Redis } from "ioredis";
import { z } from "zod";
import { messageOf } from "../../snapshots/store/errors.ts";
import type { QuotaStore } from "./counters.ts";

const start =
  /^redis(s?)(?:\+(sentinel|cluster))?:\/\/(?:((?:[^\s@/?#%]|%[\dA-Fa-f]{2})*)@)?([^\s@/?#]+)(.*)$/s;

/** The text after the hosts, and their default port, as in the addresses of Redis clients in other languages. */
const modes = {
  redis: { rest: /^/, port: 6379 },
  sentinel: {
    rest: /^\/([^\s/?#]+)(?:\/(\d{1,4}))?(?:\?(?:sentinel_(?:username|password)=[^\s&#]+(?:&(?!$)|$))+)?$/,
    port: 26_379,
  },
  cluster: { rest: /^(?:\/0?)?$/, port: 6379 },
};
const forms =
  "a file path, redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE], redis+sentinel://[USER:PASSWORD@]HOST[:PORT]," +
  "HOST[:PORT]…/PRIMARY[/DATABASE][?sentinel_password=PASSWORD] with the name that the sentinels have for the " +
  "primary, or redis+cluster://[USER:PASSWORD@]HOST[:PORT],HOST[:PORT]… without a database; rediss is for TLS";

/** Whether a QUOTA_STORE is an address rather than a file path. */
export const isUrl = (text: string): boolean => /^[a-z][a-z0-9+.-]*:\/\//i.test(text);

/**
 * Where counters are in Redis: on one server, on the primary that sentinels name, or spread over a cluster. The message
 * of its Error says what is expected, and never repeats the address, which may hold a password.
 */
export function parseRedisUrl(url: string) {
  const [match, secure, mode = "redis", access = "", hosts = "", after = ""] = start.exec(url) ?? [];
  const { rest, port } = modes[mode as keyof typeof modes];
  const [fits, name = "", db = "0"] = rest.exec(after) ?? [];
  const nodes = hosts.split(",").map((host) => URL.parse(`redis://${host}`));
  const several = mode === "redis" && nodes.length > 1;
  if (match === undefined || fits === undefined || several || !nodes.every((node) => node?.hostname))
    throw new Error(forms);
  const login = new URL(`redis://${access}@host${after}`);
  return {
    mode: mode as keyof typeof modes,
    url,
    tls: secure !== "",
    nodes: nodes.map((node) => ({
      host: node!.hostname.replace(/^\[(.*)\]$/, "$1"),
      port: Number(node!.port || port),
    })),
    username: decodeURIComponent(login.username),
    password: decodeURIComponent(login.password),
    name: decodeURIComponent(name),
    db: Number(db),
    sentinelUsername: login.searchParams.get("sentinel_username") ?? "",
    sentinelPassword: login.searchParams.get("sentinel_password") ?? "",
  };
}

const maxReconnectMilliseconds = 1000;
// Yesterday's counters stay for units given back after midnight and for clocks that are set back. The server counts
// from the first unit: with an absolute time from a proxy whose clock is days behind, a counter would expire at once.
const keepSeconds = 2 * 86_400;

// Redis runs one script at a time, so two takers cannot both see the last unit free.
const takeScript = `
  local used = tonumber(redis.call("GET", KEYS[1]) or "0")
  if used + tonumber(ARGV[1]) > tonumber(ARGV[2]) then return {0, used} end
  used = redis.call("INCRBY", KEYS[1], ARGV[1])
  if used == tonumber(ARGV[1]) then redis.call("EXPIRE", KEYS[1], ARGV[3]) end
  return {1, used}
`;
const giveBackScript = `
  local used = tonumber(redis.call("GET", KEYS[1]) or "0")
  if used > 0 then redis.call("DECRBY", KEYS[1], math.min(used, tonumber(ARGV[1]))) end
  return used
`;

type Failed = (error: Error) => void;
const TakeReply = z.tuple([z.number(), z.number()]);

const connection = (milliseconds: number) => ({
  connectTimeout: milliseconds,
  commandTimeout: milliseconds,
  // A connection on which nothing arrives for so long is replaced.
  socketTimeout: 5 * milliseconds,
  // A command without an answer may have been counted, so it is not sent again.
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: 0,
  // After a failover the old primary is a replica or has no primary, and another server has its address or name.
  reconnectOnError: ({ message }: Error) => /READONLY|MASTERDOWN|NOREPLICAS/.test(message),
});
const retryStrategy = (attempt: number) => Math.min(100 * attempt, maxReconnectMilliseconds);

function clientOf(place: ReturnType<typeof parseRedisUrl>, milliseconds: number): Redis | Cluster {
  const { mode, url, tls, nodes, username, password, ...sentinel } = place;
  const connecting = connection(milliseconds);
  // A command is sent at once or fails: a queued one would be counted after its request was answered.
  const single = { ...connecting, lazyConnect: true, enableOfflineQueue: false, retryStrategy };
  if (mode === "redis") return new Redis(url, single);
  const secure = tls ? { tls: {}, sentinelTLS: {}, enableTLSForSentinelMode: true } : {};
  const access = { username, password, ...secure };
  if (mode === "sentinel")
    return new Redis({
      ...single,
      ...access,
      ...sentinel,
      sentinels: nodes,
      sentinelRetryStrategy: retryStrategy,
      sentinelCommandTimeout: milliseconds,
    });
  return new Cluster(nodes, {
    lazyConnect: true,
    clusterRetryStrategy: retryStrategy,
    redisOptions: { ...connecting, ...access },
    // A node that is away fails at once. The others tell where its counters are when they are asked the next time.
    retryDelayOnFailover: 0,
    retryDelayOnClusterDown: 0,
    maxRedirections: 4,
    // Leaves the look-up of names to the connection, because certificates are for names.
    dnsLookup: (host, callback) => callback(null, host),
  });
}

/**
 * Counters in Redis, shared by all machines: `prs:quota:<day>:<account>`, which expire two days after their first unit.
 * `seconds` bounds a command, and the first wait for the connection. While the server is away every request fails, and
 * the client keeps reconnecting, to the new primary where sentinels or a cluster name one. `failed` is called when a
 * connection is lost or refused, and not again until it is back. Throws Error for a node of a cluster whose address is
 * given as one server's.
 */
export async function redisQuota(url: string, seconds: number, failed: Failed): Promise<QuotaStore> {
  const place = parseRedisUrl(url);
  const redis = clientOf(place, seconds * 1000);
  let away = false;
  redis.on("ready", () => (away = false));
  for (const event of ["error", "node error", "sentinelError"])
    redis.on(event, (error) => {
      if (!away) failed(wordsOf(error));
      away = true;
    });
  const keyOf = (account: string, day: string) => `prs:quota:${day}:${account}`;
  const kind = () => (redis instanceof Cluster ? "" : redis.info("cluster"));
  const connected = redis.connect().then(kind).catch(messageOf); // reported by the events above
  const answer = await Promise.race([connected, delay(seconds * 1000, "", { ref: false })]);
  if (answer.includes("cluster_enabled:1")) {
    redis.disconnect();
    throw new Error("the server is a node of a Redis Cluster; give its address as redis+cluster://…");
  }

  async function answerOf<T>(ask: () => Promise<T>): Promise<T> {
    if (redis.status !== "ready") throw new Error("Redis: there is no connection");
    try {
      return await ask();
    } catch (error) {
      throw wordsOf(error);
    }
  }

  return {
    async take(account, day, units, limit) {
      const reply = await answerOf(() =>
        redis.eval(takeScript, 1, keyOf(account, day), units, limit, keepSeconds),
      );
      const [allowed, used] = TakeReply.parse(reply);
      return { allowed: allowed === 1, used };
    },
    giveBack: async (account, day, units) =>
      void (await answerOf(() => redis.eval(giveBackScript, 1, keyOf(account, day), units))),
    used: async (account, day) => Number(await answerOf(() => redis.get(keyOf(account, day)))),
    partOf(account, day) {
      if (!(redis instanceof Cluster)) return "";
      return redis.slots[new Command("get", [keyOf(account, day)]).getSlot()]?.[0] ?? "";
    },
    async keeping() {
      const primaries = redis instanceof Cluster ? redis.nodes("master") : [redis];
      const replies = await Promise.all(primaries.map(replicaOf));
      const weakest = (["optional", "unknown", "required"] as const).find((each) => replies.includes(each));
      return { store: place.mode, replica: weakest ?? "unknown" };
    },
    close: () => redis.disconnect(),
  };
}

/**
 * Whether a primary takes units only while a replica follows. CONFIG would tell how closely, but only administrators
 * may use it. INFO has this line where a replica is required.
 */
const replicaOf = (primary: Redis): Promise<"required" | "optional" | "unknown"> =>
  primary.info("replication").then(
    (text) => (text.includes("min_slaves_good_slaves:") ? "required" : "optional"),
    () => "unknown",
  );

/** The message of a client's error without its members, which hold the command's arguments and the password. */
const wordsOf = (error: unknown): Error => new Error(`Redis: ${messageOf(error)}`);

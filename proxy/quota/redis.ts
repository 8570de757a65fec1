import { setTimeout as delay } from "node:timers/promises";
import { Redis } from "ioredis";
import { z } from "zod";
import { messageOf } from "../../snapshots/store/errors.ts";
import type { QuotaStore } from "./store.ts";

/** Deadline of a Redis command: far longer than a round trip, far shorter than a caller waits. */
export const commandMilliseconds = 1000;
// A connection on which nothing arrives for this long is given up and opened anew.
const silentMilliseconds = 5000;
const maxReconnectMilliseconds = 2000;
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

const TakeReply = z.tuple([z.number(), z.number()]);

/**
 * Counters in Redis, shared by all machines: `prs:quota:<day>:<account>`, which expire two days after their first unit.
 * Waits a moment for the connection. While the server is away every request fails, and the client keeps reconnecting.
 * `failed` is called when the connection is lost or refused, once until it is back. Throws Error for a node of a
 * cluster.
 */
export async function redisQuota(url: string, failed: (error: Error) => void): Promise<QuotaStore> {
  const redis = new Redis(url, {
    lazyConnect: true,
    connectTimeout: commandMilliseconds,
    commandTimeout: commandMilliseconds,
    socketTimeout: silentMilliseconds,
    // A command is sent at once or fails: a queued one would be counted after its request was answered.
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    retryStrategy: (attempt) => Math.min(100 * attempt, maxReconnectMilliseconds),
    // After a failover the old primary is a replica, and another is behind its address.
    reconnectOnError: ({ message }) => /READONLY|MASTERDOWN/.test(message),
  });
  let away = false;
  redis.on("ready", () => (away = false));
  redis.on("error", (error) => {
    if (!away) failed(wordsOf(error));
    away = true;
  });
  const keyOf = (account: string, day: string) => `prs:quota:${day}:${account}`;
  // Of a cluster, some of these are on other nodes.
  const sample = () => Promise.all([..."0123456789abcdef"].map((each) => redis.get(keyOf(each, "none"))));
  const connected = redis.connect().then(sample).then(String, messageOf); // reported by the event above
  const answer = await Promise.race([connected, delay(commandMilliseconds, "", { ref: false })]);
  if (answer.startsWith("MOVED")) {
    redis.disconnect();
    const advice = "name one server, with replicas or without";
    throw new Error(`a Redis Cluster spreads counters over its nodes; ${advice}`);
  }

  async function told<T>(ask: () => Promise<T>): Promise<T> {
    if (redis.status !== "ready") throw new Error("Redis: there is no connection");
    try {
      return await ask();
    } catch (error) {
      throw wordsOf(error);
    }
  }

  return {
    async take(account, day, units, limit) {
      const reply = await told(() =>
        redis.eval(takeScript, 1, keyOf(account, day), units, limit, keepSeconds),
      );
      const [allowed, used] = TakeReply.parse(reply);
      return { allowed: allowed === 1, used };
    },
    giveBack: async (account, day, units) =>
      void (await told(() => redis.eval(giveBackScript, 1, keyOf(account, day), units))),
    used: async (account, day) => Number((await told(() => redis.get(keyOf(account, day)))) ?? 0),
    close: () => redis.disconnect(),
  };
}

/** The message of a client's error without its members, which hold the command's arguments and the password. */
const wordsOf = (error: unknown): Error => new Error(`Redis: ${messageOf(error)}`);

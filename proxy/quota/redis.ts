import { setTimeout as delay } from "node:timers/promises";
import { Redis } from "ioredis";
import { z } from "zod";
import type { QuotaStore } from "./store.ts";

/** The longest that anything asked of Redis takes: long beside a round trip, short beside what a caller waits for. */
export const commandMilliseconds = 1000;
// A server that is gone without a word is given up, and connected anew.
const silentMilliseconds = 5000;
const maxReconnectMilliseconds = 2000;
// Yesterday's counters stay for units given back over midnight and for clocks that are set back. Counted from the first
// unit by the server's own clock: by a proxy's that is days behind, a counter would be gone at once.
const keepSeconds = 2 * 86_400;

// A script runs alone: two takers cannot both see the last unit free.
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
 * Counters in Redis, shared by all machines: `prs:quota:<day>:<account>`, each gone two days after its first
 * unit. Waits a moment for the connection and goes on without: a server that is away fails each request, and
 * is connected to when it is back.
 * `failed` hears why the connection is lost or refused, once until it is there again.
 */
export async function redisQuota(url: string, failed: (error: Error) => void): Promise<QuotaStore> {
  const redis = new Redis(url, {
    lazyConnect: true,
    connectTimeout: commandMilliseconds,
    commandTimeout: commandMilliseconds,
    socketTimeout: silentMilliseconds,
    // A command is sent now or fails now: kept, it would be counted after its request was answered.
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    retryStrategy: (attempt) => Math.min(100 * attempt, maxReconnectMilliseconds),
  });
  let away = false;
  redis.on("ready", () => {
    away = false;
  });
  redis.on("error", (error) => {
    if (!away) failed(wordsOf(error));
    away = true;
  });
  const connected = redis.connect().catch(() => {}); // told by the event above
  await Promise.race([connected, delay(commandMilliseconds, undefined, { ref: false })]);

  async function told<T>(ask: () => Promise<T>): Promise<T> {
    if (redis.status !== "ready") throw new Error("Redis: there is no connection");
    try {
      return await ask();
    } catch (error) {
      throw wordsOf(error);
    }
  }

  const keyOf = (account: string, day: string) => `prs:quota:${day}:${account}`;
  return {
    async take(account, day, units, limit) {
      const reply = await told(() =>
        redis.eval(takeScript, 1, keyOf(account, day), units, limit, keepSeconds),
      );
      const [allowed, used] = TakeReply.parse(reply);
      return { allowed: allowed === 1, used };
    },
    async giveBack(account, day, units) {
      await told(() => redis.eval(giveBackScript, 1, keyOf(account, day), units));
    },
    async used(account, day) {
      return Number((await told(() => redis.get(keyOf(account, day)))) ?? 0);
    },
    close: () => redis.disconnect(),
  };
}

/** An error of the client without what it carries: the command and its arguments, the password among them. */
function wordsOf(error: unknown): Error {
  return new Error(`Redis: ${error instanceof Error ? error.message : "unknown error"}`);
}

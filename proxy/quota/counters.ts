import { once } from "node:events";
import { mkdirSync } from "node:fs";
import { dirname } from "node:path";
import { DatabaseSync } from "node:sqlite";
import type { Ready } from "../../schemas/envelopes.ts";
import { inTime, startThread } from "../../snapshots/store/deadline.ts";

interface Taken {
  allowed: boolean;
  /** Units used that day, including those just taken. */
  used: number;
}

/**
 * Counters of used units, one per account and UTC day (`2026-03-01`). Every method rejects if they cannot be reached.
 */
export interface Counters {
  /** Atomically adds units, unless that would pass `limit`. */
  take(account: string, day: string, units: number, limit: number): Promise<Taken>;
  /** Subtracts units that were added before. */
  giveBack(account: string, day: string, units: number): Promise<void>;
  used(account: string, day: string): Promise<number>;
  close(): void | Promise<void>;
}

/** Counters outside of this process. */
export interface QuotaStore extends Counters {
  /** Names the part of the store that holds a counter now, where parts fail on their own. */
  partOf?(account: string, day: string): string;
  /** What is lost if the counter server fails. Never throws. */
  keeping(): Promise<Omit<Ready["counting"], "onFailure">>;
}

/** Prefix of accounts without a key. Their number has no bound, while keys are issued by the operator. */
export const freeAccounts = "free:";

// How long a process waits for another's write. A write takes microseconds.
const busyMilliseconds = 500;

// Accounts that used more are never forgotten, so that nobody gets a spent day's units again.
const mostForgotten = 128;
// Deleting a million rows at once would take seconds, in which no process could count.
const deletedAtOnce = 500;

interface Waiting extends PromiseWithResolvers<Taken> {
  account: string;
  day: string;
  units: number;
  limit: number;
}

const tables = `
  PRAGMA journal_mode = WAL;
  -- With NORMAL a crash of the process loses nothing, and a power cut at most the last moments.
  PRAGMA synchronous = NORMAL;
  BEGIN IMMEDIATE;
  CREATE TABLE IF NOT EXISTS quota (
    day TEXT NOT NULL, account TEXT NOT NULL, used INTEGER NOT NULL, UNIQUE (day, account)
  ) STRICT;
  CREATE INDEX IF NOT EXISTS forgettable ON quota (used) WHERE account GLOB '${freeAccounts}*';
  -- Counting a million rows takes longer than a request may.
  CREATE TABLE IF NOT EXISTS total (id INTEGER PRIMARY KEY, rows INTEGER NOT NULL) STRICT;
  INSERT OR IGNORE INTO total SELECT 1, count(*) FROM quota;
  CREATE TRIGGER IF NOT EXISTS added AFTER INSERT ON quota BEGIN UPDATE total SET rows = rows + 1; END;
  CREATE TRIGGER IF NOT EXISTS removed AFTER DELETE ON quota BEGIN UPDATE total SET rows = rows - 1; END;
  COMMIT;
`;

// The limit is part of the statement, so that two takers cannot both see the last unit free. Parameters are day,
// account, units and limit, by position because binding them by name takes longer than the rest.
const takeSql = `
  INSERT INTO quota (day, account, used) SELECT ?1, ?2, ?3 WHERE ?3 <= ?4
  ON CONFLICT DO UPDATE SET used = used + ?3 WHERE used + ?3 <= ?4
  RETURNING used
`;

// Yesterday stays, for units given back after midnight and for clocks that are set back.
const oldSql = "SELECT rowid FROM quota WHERE day < date(?1, '-1 day')";
const lookSql = `SELECT rows, EXISTS (${oldSql}) AS old FROM total`;
const deleteOldSql = `DELETE FROM quota WHERE rowid IN (${oldSql} LIMIT ?2)`;
const deleteLeastSql = `
  DELETE FROM quota WHERE rowid IN (
    SELECT rowid FROM quota WHERE account GLOB '${freeAccounts}*' AND used <= ${mostForgotten}
    ORDER BY used, rowid LIMIT ?1
  )
`;

/**
 * Counters in an SQLite file, or in memory for `:memory:`. A file survives restarts and is shared by the processes of
 * one machine. Days before yesterday are deleted. Beyond `maxRows`, the accounts without a key that used least are
 * forgotten, because the number of addresses has no bound. Both happen bit by bit while units are taken. Throws when
 * the file cannot be used.
 */
export function sqliteQuota(file: string, { maxRows = 1_000_000 } = {}): QuotaStore {
  if (file !== ":memory:") mkdirSync(dirname(file), { recursive: true });
  const database = new DatabaseSync(file, { timeout: busyMilliseconds });
  database.exec(tables);
  const take = database.prepare(takeSql);
  const read = database.prepare("SELECT used FROM quota WHERE day = :day AND account = :account");
  const lower = database.prepare(
    "UPDATE quota SET used = max(0, used - :units) WHERE day = :day AND account = :account",
  );
  const look = database.prepare(lookSql);
  const deleteOld = database.prepare(deleteOldSql);
  const deleteLeast = database.prepare(deleteLeastSql);
  const begin = database.prepare("BEGIN IMMEDIATE");
  const commit = database.prepare("COMMIT");
  let forgetting = false;
  let dueToDelete = true;
  let waiting: Waiting[] = [];

  const usedOf = (account: string, day: string) => Number(read.get({ account, day })?.used ?? 0);

  /** Deletes some of the rows that are too old or too many, and always more than the transaction adds. */
  function deleteSome(day: string, added: number) {
    const most = deletedAtOnce + added;
    const { rows, old } = look.get(day)!;
    if (old) deleteOld.run(day, most);
    const surplus = Number(rows) - maxRows;
    // Not at every new row, or in a full table a new account would be forgotten at once and never reach its limit.
    forgetting = surplus > (forgetting ? 0 : maxRows / 16);
    if (forgetting) deleteLeast.run(Math.min(surplus, most));
    dueToDelete = Boolean(old) || forgetting;
  }

  function takeNow({ account, day, units, limit }: Omit<Waiting, keyof PromiseWithResolvers<Taken>>): Taken {
    const row = take.get(day, account, units, limit);
    if (!row) return { allowed: false, used: usedOf(account, day) };
    const used = Number(row.used);
    // The row is new.
    if (used === units) dueToDelete = true;
    return { allowed: true, used };
  }

  /**
   * Takes the units of several waiters on one counter and limit at once, or one after another when the sum is too much.
   */
  function takeTogether(taking: readonly Waiting[]): Taken[] {
    const [first] = taking as [Waiting];
    const together = { ...first, units: taking.reduce((sum, { units }) => sum + units, 0) };
    if (taking.length === 1 || together.units > together.limit) return taking.map(takeNow);
    const { allowed, used } = takeNow(together);
    if (!allowed) return taking.map(takeNow);
    let sum = used - together.units;
    return taking.map(({ units }) => {
      sum += units;
      return { allowed, used: sum };
    });
  }

  /**
   * Counts everything that arrived in one turn of the event loop in one transaction, because a transaction costs as
   * much as many counts.
   */
  function takeAll() {
    const taking = waiting;
    waiting = [];
    const groups = [
      ...Map.groupBy(taking, ({ day, account, limit }) => `${day} ${limit} ${account}`).values(),
    ];
    try {
      begin.run();
      const taken = groups.map(takeTogether);
      if (dueToDelete) deleteSome(taking[0]!.day, taking.length);
      commit.run();
      for (const [index, group] of groups.entries())
        for (const [position, { resolve }] of group.entries()) resolve(taken[index]![position]!);
    } catch (error) {
      if (database.isOpen && database.isTransaction) database.exec("ROLLBACK");
      for (const { reject } of taking) reject(error);
    }
  }

  return {
    take(account, day, units, limit) {
      const taken = Promise.withResolvers<Taken>();
      if (waiting.push({ account, day, units, limit, ...taken }) === 1) setImmediate(takeAll);
      return taken.promise;
    },
    giveBack: async (account, day, units) => void lower.run({ account, day, units }),
    used: async (account, day) => usedOf(account, day),
    keeping: async () => ({ store: "sqlite", replica: null }),
    close: () => database.close(),
  };
}

// More than the requests of a process at a time. Questions asked before a folder hung are kept until the folder
// answers.
const mostWaiting = 10_000;

type Method = "take" | "giveBack" | "used";
export type Questions = [Method, ...Parameters<Counters["take"]>][];
export type Answers = Settled[];
type Settled = { value: unknown } | { error: string };
const gone = { error: "the thread of the quota file has ended" };

/** Questions of one message, and those who wait for the answers. */
interface Batch {
  questions: Questions;
  waiting: PromiseWithResolvers<unknown>[];
  deadline: NodeJS.Timeout;
}

/**
 * `sqliteQuota` of a file on a thread of its own. A file that is locked, or in a folder that hangs, then delays only
 * those who are counted, and them by no more than `seconds`. The thread has one message at a time: what is asked
 * meanwhile is the next one, since waking a thread takes longer than counting. Throws when the file cannot be used, or
 * is not open within `openSeconds`.
 */
export async function threadedQuota(file: string, seconds: number, openSeconds: number): Promise<QuotaStore> {
  const thread = startThread(import.meta.resolve("./sqlite-worker.ts"), file);
  let [underway, next]: (Batch | undefined)[] = [];
  let ended = false;

  function settle(batch: Batch | undefined, answer: (index: number) => Settled) {
    clearTimeout(batch?.deadline);
    for (const [index, { resolve, reject }] of batch?.waiting.entries() ?? []) {
      const settled = answer(index);
      if ("error" in settled) reject(new Error(settled.error));
      else resolve(settled.value);
    }
  }

  function begin(): Batch {
    const late = { error: `the quota file did not answer within ${seconds} s` };
    const deadline = setTimeout(() => {
      settle(batch, () => late);
      // Nobody waits for a late question any more, and units taken for it would belong to no request.
      if (next === batch) next = undefined;
    }, seconds * 1000);
    const batch: Batch = { questions: [], waiting: [], deadline };
    setImmediate(send);
    return batch;
  }

  function send() {
    if (underway || !next) return;
    [underway, next] = [next, undefined];
    thread.postMessage(JSON.stringify(underway.questions));
  }

  function ask<T>(method: Method, account: string, day: string, units = 0, limit = 0): Promise<T> {
    if (ended) return Promise.reject(new Error(gone.error));
    next ??= begin();
    if (next.waiting.length >= mostWaiting)
      return Promise.reject(new Error("too many requests wait for the quota file"));
    const settled = Promise.withResolvers<T>();
    next.waiting.push(settled as PromiseWithResolvers<unknown>);
    next.questions.push([method, account, day, units, limit]);
    return settled.promise;
  }

  thread.on("message", (text: string) => {
    const answers: Answers = JSON.parse(text);
    settle(underway, (index) => answers[index]!);
    underway = undefined;
    send();
  });
  const opened = inTime(openSeconds, once(thread, "message"));
  const end = () => {
    ended = true;
    for (const batch of [underway, next]) settle(batch, () => gone);
  };
  thread.on("error", end).on("exit", end);
  await opened.catch((error) => {
    void thread.terminate();
    throw error;
  });
  thread.unref();
  return {
    take: (...of) => ask<Taken>("take", ...of),
    giveBack: (...of) => ask<void>("giveBack", ...of),
    used: (...of) => ask<number>("used", ...of),
    keeping: async () => ({ store: "sqlite", replica: null }),
    async close() {
      await inTime(seconds, thread.terminate()).catch(() => {});
    },
  };
}

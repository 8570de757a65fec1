import { mkdirSync } from "node:fs";
import { dirname } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { freeAccounts, type QuotaStore, type Taken } from "./store.ts";

// How long a process waits for the write of another. A write takes microseconds.
const busyMilliseconds = 500;

// How often rows are counted while the table fills up to maxRows.
const sweeps = 16;
// Accounts that used more are never forgotten, so that nobody gets a spent day's units again.
const mostForgotten = 128;
// Sweeping a million rows at once would take seconds, in which no process could count.
const sweptAtOnce = 500;
// Keeps the sweep ahead of new rows: each take adds at most one.
const sweptPerTake = 4;

/** Units to be taken, and the caller's promise. */
interface Waiting {
  account: string;
  day: string;
  units: number;
  limit: number;
  resolve: (taken: Taken) => void;
  reject: (error: unknown) => void;
}

const tables = `
  PRAGMA journal_mode = WAL;
  -- With NORMAL a crash of the process loses nothing, and a power cut at most the last moments.
  PRAGMA synchronous = NORMAL;
  CREATE TABLE IF NOT EXISTS quota (
    day TEXT NOT NULL, account TEXT NOT NULL, used INTEGER NOT NULL, PRIMARY KEY (day, account)
  ) STRICT, WITHOUT ROWID;
`;

// The limit is part of the statement, so that two takers cannot both see the last unit free. Parameters are day, account,
// units and limit, by position because binding them by name takes longer than the rest.
const takeSql = `
  INSERT INTO quota (day, account, used) SELECT ?1, ?2, ?3 WHERE ?3 <= ?4
  ON CONFLICT DO UPDATE SET used = used + ?3 WHERE used + ?3 <= ?4
  RETURNING used
`;

/** A walk over all rows, a few per transaction. Forgets accounts without a key that used at most `most` units. */
const sweepOf = (most: number) => ({
  most,
  /** The last row seen. */
  day: "",
  account: "",
  /** Rows seen and not deleted. */
  kept: 0,
});

/**
 * Counters in an SQLite file, or in memory for `:memory:`. A file survives restarts and is shared by the processes of one
 * machine. Days before yesterday are deleted. Beyond `maxRows`, the accounts without a key that used least are forgotten,
 * because there is no end of addresses. Both happen bit by bit while units are taken. Throws when the file cannot be used.
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
  const next = database.prepare(
    "SELECT day, account, used FROM quota WHERE (day, account) > (?1, ?2) ORDER BY day, account LIMIT ?3",
  );
  const remove = database.prepare("DELETE FROM quota WHERE day = ?1 AND account = ?2");
  const [begin, commit, rollback] = ["BEGIN IMMEDIATE", "COMMIT", "ROLLBACK"].map((sql) =>
    database.prepare(sql),
  );
  let newestDay = "";
  let oldestDay = "";
  let added = 0;
  let sweep: ReturnType<typeof sweepOf> | undefined;
  let waiting: Waiting[] = [];

  const usedOf = (account: string, day: string) => Number(read.get({ account, day })?.used ?? 0);

  /** Once a day. Yesterday stays, for units given back after midnight and clocks that are set back. */
  function pruneBefore(day: string) {
    if (day <= newestDay) return;
    newestDay = day;
    oldestDay = new Date(Date.parse(day) - 86_400_000).toISOString().slice(0, 10);
    sweep = sweepOf(0);
  }

  function boundRows() {
    added += 1;
    if (added % Math.ceil(maxRows / sweeps) === 0) sweep ??= sweepOf(0);
  }

  /** Continues the current sweep. If a sweep leaves too many rows, the next one forgets more. */
  function sweepSome(rows: number) {
    if (!sweep) return;
    let seen = 0;
    for (const row of next.all(sweep.day, sweep.account, rows)) {
      const [day, account] = [String(row.day), String(row.account)];
      const forgotten = Number(row.used) <= sweep.most && account.startsWith(freeAccounts);
      if (forgotten || day < oldestDay) remove.run(day, account);
      else sweep.kept += 1;
      seen += 1;
      Object.assign(sweep, { day, account });
    }
    if (seen === rows) return;
    const { kept, most } = sweep;
    sweep = kept > maxRows && most < mostForgotten ? sweepOf(most * 2 || 1) : undefined;
  }

  function takeNow({ account, day, units, limit }: Waiting): Taken {
    pruneBefore(day);
    const row = take.get(day, account, units, limit);
    if (!row) return { allowed: false, used: usedOf(account, day) };
    if (row.used === units) boundRows();
    return { allowed: true, used: Number(row.used) };
  }

  /** Counts everything that arrived in one turn of the event loop in one transaction, which costs as much as many counts. */
  function takeAll() {
    const taking = waiting;
    waiting = [];
    try {
      begin?.run();
      const taken = taking.map(takeNow);
      sweepSome(sweptAtOnce + sweptPerTake * taking.length);
      commit?.run();
      for (const [index, { resolve }] of taking.entries()) resolve(taken[index]!);
    } catch (error) {
      if (database.isOpen && database.isTransaction) rollback?.run();
      for (const { reject } of taking) reject(error);
    }
  }

  return {
    take(account, day, units, limit) {
      return new Promise<Taken>((resolve, reject) => {
        if (waiting.push({ account, day, units, limit, resolve, reject }) === 1) setImmediate(takeAll);
      });
    },
    async giveBack(account, day, units) {
      lower.run({ account, day, units });
    },
    async used(account, day) {
      return usedOf(account, day);
    },
    close() {
      database.close();
    },
  };
}

import { mkdirSync } from "node:fs";
import { dirname } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { freeAccounts, type QuotaStore, type Taken } from "./store.ts";

// How long a process waits for another one's write; a write takes microseconds.
const busyMilliseconds = 500;

/** Sweeps for too many rows while as many come as there may be. */
const sweeps = 16;
// An account that used more is never forgotten: nobody gets a spent day's units anew.
const mostForgotten = 128;
// A sweep of a million rows at once would take seconds, in which this process answers nobody and others cannot count.
const sweptAtOnce = 500;
// With only that many, rows could come as fast as they are swept.
const sweptPerTake = 4;

/** A walk over all rows, a few with every transaction. */
interface Sweep {
  /** Accounts without a key that used no more are forgotten; 0 forgets none. */
  most: number;
  /** The last row seen. */
  day: string;
  account: string;
  /** Rows seen and not deleted. */
  kept: number;
}

/** Units to be taken, and who waits for it. */
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
  -- NORMAL: a crash of the process loses nothing, a power cut at most the last moments.
  PRAGMA synchronous = NORMAL;
  CREATE TABLE IF NOT EXISTS quota (
    day TEXT NOT NULL, account TEXT NOT NULL, used INTEGER NOT NULL, PRIMARY KEY (day, account)
  ) STRICT, WITHOUT ROWID;
`;

// The limit is part of the statement, so two takers cannot both see the last unit free.
// Day, account, units, limit: by place, since binding by name takes longer than the rest.
const takeSql = `
  INSERT INTO quota (day, account, used) SELECT ?1, ?2, ?3 WHERE ?3 <= ?4
  ON CONFLICT DO UPDATE SET used = used + ?3 WHERE used + ?3 <= ?4
  RETURNING used
`;

const sweepOf = (most: number): Sweep => ({ most, day: "", account: "", kept: 0 });

/**
 * Counters in an SQLite file: they survive restarts and are shared by the processes of one machine.
 * `:memory:` keeps them in the process. Days before yesterday are deleted. Throws when the file cannot be
 * used.
 * Beyond `maxRows` accounts without a key that used least are forgotten, since there is no end of addresses. Both happen
 * little by little, while units are taken.
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
  let sweep: Sweep | undefined;
  let waiting: Waiting[] = [];

  const usedOf = (account: string, day: string) => Number(read.get({ account, day })?.used ?? 0);

  /** Once a day; yesterday stays, for units given back over midnight and clocks that are set back. */
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

  /** Goes on with the sweep under way. One that leaves too many is followed by one that forgets more. */
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

  /** Counts all that came in one round of the event loop in one transaction: each costs as much as many counts. */
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

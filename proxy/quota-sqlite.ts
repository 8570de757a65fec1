import { mkdirSync } from "node:fs";
import { dirname } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { freeAccounts, type QuotaStore, type Taken } from "./quota-store.ts";

// How long a process waits for another one's write; a write takes microseconds.
const busyMilliseconds = 500;

/** Looks for too many rows while as many come as there may be. */
const looks = 16;
// An account that used more is never forgotten: nobody gets a spent day's units anew.
const mostForgotten = 128;

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

/**
 * Counters in an SQLite file: they survive restarts and are shared by the processes of one machine.
 * `:memory:` keeps them in the process. Days before yesterday are deleted. Throws when the file cannot be
 * used.
 * Beyond `maxRows` accounts without a key that used least are forgotten, since there is no end of addresses.
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
  const prune = database.prepare("DELETE FROM quota WHERE day < :day");
  const rows = database.prepare("SELECT count(*) AS rows FROM quota");
  const forget = database.prepare("DELETE FROM quota WHERE used <= :most AND account GLOB :accounts");
  const [begin, commit, rollback] = ["BEGIN IMMEDIATE", "COMMIT", "ROLLBACK"].map((sql) =>
    database.prepare(sql),
  );
  let newestDay = "";
  let added = 0;
  let waiting: Waiting[] = [];

  const usedOf = (account: string, day: string) => Number(read.get({ account, day })?.used ?? 0);

  /** Once a day; yesterday stays, for units given back over midnight and clocks that are set back. */
  function pruneBefore(day: string) {
    if (day <= newestDay) return;
    newestDay = day;
    const yesterday = new Date(Date.parse(day) - 86_400_000).toISOString().slice(0, 10);
    prune.run({ day: yesterday });
  }

  function boundRows() {
    added += 1;
    if (added % Math.ceil(maxRows / looks) !== 0) return;
    for (let most = 1; most <= mostForgotten && Number(rows.get()?.rows) > maxRows; most *= 2)
      forget.run({ most, accounts: `${freeAccounts}*` });
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

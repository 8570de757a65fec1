import { mkdirSync } from "node:fs";
import { dirname } from "node:path";
import { DatabaseSync } from "node:sqlite";
import type { QuotaStore } from "./quota-store.ts";

// How long a process waits for another one's write; a write takes microseconds.
const busyMilliseconds = 500;

const tables = `
  PRAGMA journal_mode = WAL;
  -- NORMAL: a crash of the process loses nothing, a power cut at most the last moments.
  PRAGMA synchronous = NORMAL;
  CREATE TABLE IF NOT EXISTS quota (
    day TEXT NOT NULL, account TEXT NOT NULL, used INTEGER NOT NULL, PRIMARY KEY (day, account)
  ) STRICT, WITHOUT ROWID;
`;

// The limit is part of the statement, so two takers cannot both see the last unit free.
const takeSql = `
  INSERT INTO quota (day, account, used) SELECT :day, :account, :units WHERE :units <= :limit
  ON CONFLICT DO UPDATE SET used = used + :units WHERE used + :units <= :limit
  RETURNING used
`;

/**
 * Counters in an SQLite file: they survive restarts and are shared by the processes of one machine.
 * `:memory:` keeps them in the process. Days before yesterday are deleted. Throws when the file cannot be
 * used.
 */
export function sqliteQuota(file: string): QuotaStore {
  if (file !== ":memory:") mkdirSync(dirname(file), { recursive: true });
  const database = new DatabaseSync(file, { timeout: busyMilliseconds });
  database.exec(tables);
  const take = database.prepare(takeSql);
  const read = database.prepare("SELECT used FROM quota WHERE day = :day AND account = :account");
  const lower = database.prepare(
    "UPDATE quota SET used = max(0, used - :units) WHERE day = :day AND account = :account",
  );
  const prune = database.prepare("DELETE FROM quota WHERE day < :day");
  let newestDay = "";

  const usedOf = (account: string, day: string) => Number(read.get({ account, day })?.used ?? 0);

  /** Once a day; yesterday stays, for units given back over midnight and clocks that are set back. */
  function pruneBefore(day: string) {
    if (day <= newestDay) return;
    newestDay = day;
    const yesterday = new Date(Date.parse(day) - 86_400_000).toISOString().slice(0, 10);
    prune.run({ day: yesterday });
  }

  return {
    async take(account, day, units, limit) {
      pruneBefore(day);
      const row = take.get({ account, day, units, limit });
      return row ? { allowed: true, used: Number(row.used) } : { allowed: false, used: usedOf(account, day) };
    },
    async giveBack(account, day, units) {
      lower.run({ account, day, units });
    },
    close() {
      database.close();
    },
  };
}

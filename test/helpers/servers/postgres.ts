import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, chown, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { Client } from "pg";
import { findProgram, freePort } from "./programs.ts";

/** PostgreSQL does not run as root: its own user is there where it is installed. */
export function serverUser(): { uid?: number; gid?: number } {
  if (process.getuid?.() !== 0) return {};
  const id = (option: string) => Number(execFileSync("id", [option, "postgres"], { encoding: "utf8" }));
  return { uid: id("-u"), gid: id("-g") };
}

/** PostgreSQL's programs, or undefined where it is not installed; under CI that is an error. */
export function findPostgres(): { postgres: string; initdb: string } | undefined {
  const [postgres, initdb] = [findProgram("postgres"), findProgram("initdb")];
  return postgres && initdb ? { postgres, initdb } : undefined;
}

/** A PostgreSQL server of a test's own. */
export interface TestPostgres {
  /** The variables that name it to PostgreSQL's programs and libraries. */
  env: Record<"PGHOST" | "PGPORT" | "PGUSER" | "PGDATABASE", string>;
  /** A connection, to be ended before the server is stopped. */
  connect(): Promise<Client>;
  stop(): Promise<void>;
}

/** Starts a server with an empty database on a free loopback port. */
export async function startPostgres({
  postgres,
  initdb,
}: NonNullable<ReturnType<typeof findPostgres>>): Promise<TestPostgres> {
  const folder = await mkdtemp(join(tmpdir(), "prs-postgres-"));
  const owner = { ...serverUser(), cwd: folder };
  const user = "owner";
  await chmod(folder, 0o700);
  if (owner.uid !== undefined) await chown(folder, owner.uid, owner.gid!);
  const init = ["-D", folder, "-U", user, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"];
  const made = spawn(initdb, init, { ...owner, stdio: "ignore" });
  const [code] = await once(made, "close");
  if (code !== 0) throw new Error(`initdb ended with ${code}`);
  const port = await freePort();
  const settings = { port, listen_addresses: "127.0.0.1", unix_socket_directories: "", fsync: "off" };
  const given = Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
  const child = spawn(postgres, ["-D", folder, ...given], { ...owner, stdio: ["ignore", "ignore", "pipe"] });
  await ready(child);
  return {
    env: { PGHOST: "127.0.0.1", PGPORT: String(port), PGUSER: user, PGDATABASE: "postgres" },
    async connect() {
      const client = new Client({ host: "127.0.0.1", port, user, database: "postgres" });
      await client.connect();
      return client;
    },
    async stop() {
      const ended = once(child, "exit");
      child.kill("SIGINT");
      await ended;
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function ready(child: ChildProcess): Promise<void> {
  const lines: string[] = [];
  for await (const line of createInterface({ input: child.stderr! })) {
    lines.push(line);
    if (line.includes("ready to accept connections")) {
      // A pipe that nobody empties would stop the server one day.
      child.stderr!.resume();
      return;
    }
  }
  throw new Error(`postgres ended before it listened: ${lines.join("\n")}`);
}

import { execFile, execFileSync } from "node:child_process";
import { chmod, chown, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { Client } from "pg";
import { endProcess, findProgram, freePort, startServer } from "./programs.ts";

interface Programs {
  postgres: string;
  initdb: string;
}

/** PostgreSQL's programs, or undefined where it is not installed; under CI that is an error. */
export function findPostgres(): Programs | undefined {
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

/** Starts a server with an empty database in a folder of its own, which goes with it. */
export async function startPostgres(programs: Programs): Promise<TestPostgres> {
  const folder = await mkdtemp(join(tmpdir(), "prs-postgres-"));
  await makeDatabase(programs, folder);
  const server = await openDatabase(programs, folder, { fsync: "off" });
  return {
    ...server,
    async stop() {
      await server.stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

const user = "owner";

/** Makes an empty database in an empty folder. */
export async function makeDatabase({ initdb }: Programs, folder: string): Promise<void> {
  const owner = serverUser();
  await chmod(folder, 0o700);
  if (owner.uid !== undefined) await chown(folder, owner.uid, owner.gid!);
  const locale = ["-E", "UTF8", "--locale=C", "--lc-ctype=C.UTF-8"];
  const given = ["-D", folder, "-U", user, "-A", "trust", ...locale, "--no-sync"];
  await promisify(execFile)(initdb, given, { ...owner, cwd: folder });
}

/** Starts a server over the database in a folder, on a free loopback port. */
export async function openDatabase(
  { postgres }: Programs,
  folder: string,
  more: Readonly<Record<string, string | number>>,
): Promise<TestPostgres> {
  const port = await freePort();
  const settings = { port, listen_addresses: "127.0.0.1", unix_socket_directories: "", ...more };
  const given = Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
  const says = /ready to accept connections/;
  const how = { ...serverUser(), cwd: folder, says, pipe: "stderr" } as const;
  const { child } = await startServer(postgres, ["-D", folder, ...given], how);
  return {
    env: { PGHOST: "127.0.0.1", PGPORT: String(port), PGUSER: user, PGDATABASE: "postgres" },
    async connect() {
      const client = new Client({ host: "127.0.0.1", port, user, database: "postgres" });
      await client.connect();
      return client;
    },
    // Its fast way to stop: SIGTERM would wait for clients.
    stop: () => endProcess(child, "SIGINT"),
  };
}

/** PostgreSQL does not run as root: its own user is there where it is installed. */
function serverUser(): { uid?: number; gid?: number } {
  if (process.getuid?.() !== 0) return {};
  const id = (option: string) => Number(execFileSync("id", [option, "postgres"], { encoding: "utf8" }));
  return { uid: id("-u"), gid: id("-g") };
}

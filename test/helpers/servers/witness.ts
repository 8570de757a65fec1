import { type ChildProcess, execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { promisify } from "node:util";
import { treeHead } from "../../../snapshots/format/tree.ts";
import { until } from "../http/proxy-client.ts";
import { endProcess, freePort, fromEnvironment, startServer, takesConnections } from "./programs.ts";

const run = promisify(execFile);

/** The programs of real witnesses, or undefined where they are not installed. */
export function findWitness(): WitnessPrograms | undefined {
  const program = (variable: string) => fromEnvironment(variable, "real witnesses", "witness-install.sh");
  const litewitness = program("TEST_LITEWITNESS");
  const mlDsa = litewitness && program("TEST_MLDSA_WITNESS");
  const monitor = mlDsa && program("TEST_TLOG_MONITOR");
  return monitor ? { litewitness, mlDsa, monitor } : undefined;
}

export interface WitnessPrograms {
  /** litewitness, which cosigns with Ed25519. */
  litewitness: string;
  /** The same witness with a key of ML-DSA-44, which litewitness's own command cannot load. */
  mlDsa: string;
  /** A monitor, which reads a log below an address, or judges notes. */
  monitor: string;
}

/** A real witness on a free loopback port, which keeps what it has seen over `kill` and `start`. */
export interface TestWitness {
  url: string;
  /** Its public key, as a policy has it. */
  vkey: string;
  start(): Promise<void>;
  /** Ends it as a power cut of the program would. */
  kill(): Promise<void>;
  /** What it has seen of a log. */
  seen(origin: string): { size: number; root: string };
  stop(): Promise<void>;
}

/** Starts a witness of this name that knows a log by its public keys. */
export async function startWitness(
  programs: WitnessPrograms,
  name: string,
  log: { origin: string; vkeys: readonly string[] },
  kind: "ed25519" | "ml-dsa-44" = "ed25519",
): Promise<TestWitness> {
  const folder = await mkdtemp(join(tmpdir(), "prs-witness-"));
  const port = await freePort();
  const database = join(folder, "db");
  const listen = `127.0.0.1:${port}`;
  const agent = kind === "ed25519" ? await startAgent(folder) : undefined;
  const [program, options] = agent
    ? [programs.litewitness, ["-key", agent.fingerprint, "-ssh-agent", agent.socket]]
    : [programs.mlDsa, ["-seed", join(folder, "seed")]];
  let child: ChildProcess | undefined;
  let vkey = "";
  const start = async () => {
    const settings = ["-db", database, "-name", name, "-listen", listen, ...options];
    const says = / vkey="?([^"\s]+)/;
    const started = await startServer(program, settings, { says, pipe: "stderr" });
    child = started.child;
    vkey = says.exec(started.lines.join("\n"))![1]!;
    await until("the witness to listen, or to end", async () => {
      if (child!.exitCode !== null) throw new Error(`the witness ended: ${started.lines.join("\n")}`);
      return takesConnections(port);
    });
  };
  const kill = () => endProcess(child, "SIGKILL");
  const stop = async () => {
    await kill();
    await endProcess(agent?.child, "SIGTERM");
    await rm(folder, { recursive: true, force: true });
  };
  try {
    await start();
    know(database, log);
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    url: `http://${listen}`,
    vkey,
    start,
    kill,
    seen(origin) {
      const row = withDatabase(database, (db) =>
        db.prepare("SELECT tree_size, tree_hash FROM log WHERE origin = ?").get(origin),
      );
      return { size: Number(row?.tree_size), root: String(row?.tree_hash) };
    },
    stop,
  };
}

/**
 * Makes a log known to a witness, as `witnessctl add-log` and `add-key` do. That program is not used because Go cannot
 * install it everywhere: one of its modules is not in every module proxy.
 */
function know(database: string, { origin, vkeys }: { origin: string; vkeys: readonly string[] }): void {
  withDatabase(database, (db) => {
    const root = treeHead([]).toString("base64");
    db.prepare("INSERT INTO log (origin, tree_size, tree_hash) VALUES (?, 0, ?)").run(origin, root);
    for (const vkey of vkeys) db.prepare("INSERT INTO key (origin, key) VALUES (?, ?)").run(origin, vkey);
  });
}

function withDatabase<T>(path: string, work: (database: DatabaseSync) => T): T {
  const database = new DatabaseSync(path, { timeout: 10_000 });
  try {
    return work(database);
  } finally {
    database.close();
  }
}

/** Of the Debian package openssh-client, as the programs that make and add its key. */
const agentProgram = "ssh-agent";

/** An ssh-agent with one new key. litewitness never holds a key itself. */
async function startAgent(folder: string) {
  const [key, socket] = [join(folder, "key"), join(folder, "agent")];
  await run("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-f", key]);
  const fingerprint = (await run("ssh-keygen", ["-lf", `${key}.pub`])).stdout.split(" ")[1]!;
  // It says where it listens once it does.
  const { child } = await startServer(agentProgram, ["-D", "-a", socket], { says: /./, pipe: "stdout" });
  await run("ssh-add", ["-q", key], { env: { ...process.env, SSH_AUTH_SOCK: socket } });
  return { child, socket, fingerprint };
}

import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { delimiter, join } from "node:path";
import { text } from "node:stream/consumers";
import { promisify } from "node:util";
import { beforeAll, expect, onTestFinished, test } from "vitest";
import { readConfig } from "../../proxy/config.ts";
import { directoryStorage } from "../../snapshots/store/backends/directory.ts";
import { newestCommit } from "../../snapshots/store/log/commits.ts";
import { verifierText } from "../../snapshots/trust/notes/note-keys.ts";
import { takenUp } from "../helpers/http/live-feed.ts";
import { startTestProxy, type TestProxy } from "../helpers/http/proxy.ts";
import { type Ended, type programs, runCommand } from "../helpers/publish/commands.ts";
import { blockWith } from "../helpers/publish/guides.ts";
import { findClients } from "../helpers/servers/clients.ts";
import { findDuckDbHome } from "../helpers/servers/duckdb-home.ts";
import { findProgram, serveLocally } from "../helpers/servers/programs.ts";
import { serveTree } from "../helpers/servers/public-tree.ts";
import { keyText, testKey } from "../helpers/store/signing.ts";
import { testFolder } from "../helpers/store/test-folder.ts";

// Each file of sessions/ holds lines that a user types, and all that is answered: on stdout, on stderr behind !, and the
// exit code behind ? where it is not 0. A line $ NAME ARGUMENTS runs a command of ours, with variables before its name,
// $ sh one of the shell, $ file writes the lines behind | that follow, and $ block FILE WORDS the one block of the guides
// that has these words. -u writes the answers anew. PROXY is where a proxy serves the newest commit of `store`.

const root = join(import.meta.dirname, "../..");
const sessions = join(import.meta.dirname, "sessions");
const folder = testFolder();

/** What a session finds in its folder: keys of a publisher, and of others. */
const given = {
  "ours.key": keyText("prs.example/scores"),
  "quantum.key": keyText("prs.example/scores", "", "ml-dsa-44"),
  "renamed.key": keyText("prs.example/renamed", "", "ml-dsa-44"),
  "next.key": keyText("prs.example/scores", "other"),
  "other.key": keyText("other"),
  "witness.key": keyText("w", "", "cosignature-ed25519"),
  "ours.pub": verifierText(testKey()),
  "other.pub": verifierText(testKey("prs.example/scores", "other")),
  "witness.pub": verifierText(testKey("w", "", "cosignature-ed25519")),
};

/** Nothing of what the environment of the tests may have. */
const bare = Object.fromEntries(
  ["SIGNING_KEY", "SIGNING_NAME", "TRUSTED_KEYS", "TRUST_POLICY", "WITNESS_POLICY", "CHECKPOINT_FILE"]
    .concat("API_URL", "SITE_URL", "CONTACT", "STORE", "SNAPSHOT_STORE")
    .concat("AWS_REGION", "AWS_ENDPOINT_URL_S3", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    .map((name) => [name, ""]),
);

/** What differs from run to run, by the names that a session has for it. */
class Names {
  /** Addresses and the folder, by their names. */
  readonly places: Record<string, string>;
  readonly #typed: string;
  readonly #names = new Map<string, string>();

  constructor(places: Record<string, string>, typed: string) {
    this.places = places;
    this.#typed = typed;
  }

  #nameOf(kind: string, text: string): string {
    if (this.#typed.includes(text)) return text;
    // A list shows the begin of a snapshot's id.
    const whole = [...this.#names.keys()].find((known) => known.startsWith(text));
    if (whole !== undefined) return this.#names.get(whole)! + (whole === text ? "" : "…");
    const count = [...this.#names.values()].filter((name) => name.startsWith(kind)).length;
    this.#names.set(text, `${kind}${count + 1}`);
    return this.#names.get(text)!;
  }

  /** A typed line with what its names stand for. */
  meant(line: string): string {
    const texts = new Map([...this.#names].map(([text, name]) => [name, text]));
    return line
      .replace(/\b(CDN|PROXY)\b/g, (name) => this.places[name]!)
      .replace(/\b(KEY|ID|HASH)\d+\b/g, (name) => texts.get(name) ?? name)
      .replace(/\{(\d+)\*(.)\}/g, (_, count, one) => one.repeat(count))
      .replace(/\\u\{(..)\}/g, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)));
  }

  shown(text: string): string {
    return (
      Object.entries(this.places)
        .reduce((all, [name, place]) => all.replaceAll(place, name), text)
        .replace(/prs_live_\w{38}/g, (key) => this.#nameOf("KEY", key))
        .replace(/\b[0-9a-f]{64}\b/g, (hash) => this.#nameOf("HASH", hash))
        .replace(/\b(?!9007199254740991)[0-9a-f]{16}\b/g, (id) => this.#nameOf("ID", id))
        .replace(/(?<=\+)[0-9a-f]{8}\+[A-Za-z0-9+/]{44,}=*/g, (key) => this.#nameOf("PUBLIC", key))
        .replace(/(?<=\\n(— \S+ )?)[A-Za-z0-9+/]{43,}=*/g, "BASE64")
        .replace(/\b20\d\d-\d\d-\d\d[T ][\d:]{8}\.\d{3,6}(Z|\+00)/g, (time) => {
          const hours = Math.round((Date.parse(time.replace(/\+00$/, "Z")) - Date.now()) / 3_600_000);
          return Math.abs(hours) > 100 ? time : hours === 0 ? "NOW" : `NOW+${hours}h`;
        })
        .replace(/\b[\d,]+(?= bytes)|(?<="bytes": ?)\d+|\b[\d.]+(?= (MB|MiB|KiB|s)\b)/g, "N")
        .replace(/"\/\S*(?=\/\w+\.duckdb_extension")/g, '"…')
        .replace(/^[\w ,]+: \d+ of \d+ \(\d+ %\)\n/gm, "")
        // That it tells all options is seen in test/project/named.test.ts.
        .replace(/^Usage:\s+(npm run \w+ --)[\s\S]*/m, "Usage: $1 …")
    );
  }
}

/** What each line of the shell begins with: the variables that a guide sets, and `npm run`, which asks `commands`. */
const prelude = `
npm() {
  [ "$1" = run ] && [ "$3" = -- ] || { command npm "$@"; return; }
  local name=$2; shift 3
  { printf '%s\\0' "$name" "$PWD" $# "$@"; env -0; } | curl -sS --fail --data-binary @- "$COMMANDS"
}
[ ! -e "$FOLDER/env" ] || . "$FOLDER/env"`;
/** Runs commands in this process: one of its own would take most of its time to load. */
let commands: Awaited<ReturnType<typeof serveLocally>>;
beforeAll(async () => {
  commands = await serveLocally(
    createServer(async (request, response) => {
      const [name, from = "", count, ...rest] = (await text(request)).split("\0");
      const variables = rest.slice(Number(count), -1).map((line) => /^([^=]*)=(.*)$/s.exec(line)!.slice(1));
      const env = { ...bare, ...Object.fromEntries(variables) };
      const ended = await runCommand(name as keyof typeof programs, rest.slice(0, Number(count)), {
        from,
        env,
      });
      response.writeHead(ended.code === 0 ? 200 : 500).end(ended.stdout);
    }),
  );
  return commands.stop;
});

async function run(line: string, from: string): Promise<Ended> {
  const words = line.match(/'[^']*'|\S+/g)!.map((word) => word.replace(/^'(.*)'$/s, "$1"));
  const first = words.findIndex((word) => !/^[A-Z0-9_]+=/.test(word));
  const [name = "", ...args] = words.slice(first);
  if (name === "sh") {
    const env = {
      ...process.env,
      ...{ ROOT: root, FOLDER: from, COMMANDS: commands.url },
      PATH: [join(root, "node_modules/.bin"), process.env.PATH].join(delimiter),
      ...{ PYTHONPATH: from, PYTHONDONTWRITEBYTECODE: "1", npm_config_offline: "true" },
      npm_config_cache: join(from, "npm-cache"),
    };
    const { stdout, stderr } = await promisify(execFile)("bash", ["-ec", `${prelude}\n${line.slice(3)}`], {
      cwd: from,
      env,
    });
    return { code: 0, stdout, stderr };
  }
  const env = { ...bare, ...Object.fromEntries(words.slice(0, first).map((word) => word.split("="))) };
  return runCommand(name as keyof typeof programs, args, { from, env });
}

/** What a session needs that may not be installed, by the line # Needs: at its head. */
const found: Record<string, () => string | undefined> = {
  TEST_CLIENTS_PYTHON: findClients,
  TEST_DUCKDB_HOME: findDuckDbHome,
};
const lacks = (session: string) =>
  (/^# Needs: (.*)/.exec(readFileSync(join(sessions, session), "utf8"))?.[1] ?? "")
    .split(" ")
    .some((name) => name !== "" && !(found[name] ?? (() => findProgram(name)))());

test.for(await readdir(sessions))("%s", async (session, { skip }) => {
  if (lacks(session)) return skip();
  const [from, file] = [join(folder, session), join(sessions, session)];
  await mkdir(from);
  for (const [name, text] of Object.entries(given)) await writeFile(join(from, name), `${text}\n`);
  const typed = (await readFile(file, "utf8")).split("\n").filter((line) => /^([$|#]|$)/.test(line));
  // What shows public/ of the session's store.
  const { server, home } = await serveTree(directoryStorage(join(from, "store")), "/public/");
  onTestFinished(() => void server.close());
  const names = new Names({ FOLDER: from, CDN: home.replace("/public/", "") }, typed.join("\n"));
  let proxy: TestProxy | undefined;
  const serve = async () => {
    const snapshotStore = join(from, "store");
    if (proxy === undefined) {
      proxy = await startTestProxy({ empty: true, snapshotStore });
      onTestFinished(proxy.stop);
      names.places.PROXY = `http://127.0.0.1:${proxy.port}`;
    }
    // It looks for exports once a minute.
    proxy.clock.now += 60_000;
    await takenUp(proxy, (await newestCommit(directoryStorage(snapshotStore)))!.entry.snapshotId);
  };
  const told: string[] = [];
  for (const [place, line] of typed.entries()) {
    told.push(line);
    if (!line.startsWith("$ ")) continue;
    const [, kind, name = "", words = ""] = /^\$ (file|block) (\S+) ?(.*)/.exec(line) ?? [];
    if (kind !== undefined) {
      const end = typed.findIndex((other, at) => at > place && !other.startsWith("|"));
      const content = typed.slice(place + 1, end).map((each) => `${names.meant(each.slice(2))}\n`);
      const { host, port } = readConfig({ SNAPSHOT_STORE: "store" });
      const block = () =>
        blockWith(words).text.replaceAll(`http://${host}:${port}`, () => names.places.PROXY!);
      await writeFile(join(from, name), kind === "file" ? content.join("") : block());
      continue;
    }
    if (proxy || /\bPROXY\b/.test(line)) await serve();
    const { code, stdout, stderr } = await run(names.meant(line.slice(2)), from);
    for (const [before, text] of [
      [" ", stdout],
      ["!", stderr],
    ] as const)
      for (const each of names.shown(text).split("\n").filter(Boolean)) told.push(`${before} ${each}`);
    if (code !== 0) told.push(`? ${code}`);
  }
  await expect(told.join("\n")).toMatchFileSnapshot(file);
});

import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, posix } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { endpoints } from "../../schemas/endpoints.ts";
import { bearer, call, until } from "../helpers/http/proxy-client.ts";
import { startUnit } from "../helpers/http/proxy-command.ts";
import { commandsOf, copyProject, productFiles as files } from "../helpers/publish/copies.ts";
import { nodeOptions } from "../helpers/servers/programs.ts";

const run = promisify(execFile);
const root = join(import.meta.dirname, "../..");

/** A part of the product that can be taken away: its files and folders, and its endpoints. */
interface Room {
  files: readonly string[];
  endpoints: readonly string[];
}

const rooms: Record<string, Room> = {
  "Delta Sharing": {
    files: [
      "proxy/delta-sharing/",
      "snapshots/read/sharing/",
      "schemas/rooms/sharing.ts",
      "scripts/sharing-profile.ts",
    ],
    endpoints: Object.entries(endpoints).flatMap(([id, { path }]) =>
      path.startsWith("/delta-sharing/") ? id : [],
    ),
  },
  agents: {
    files: ["proxy/agents/", "schemas/rooms/agents.ts"],
    endpoints: ["agents"],
  },
  recompute: {
    files: ["proxy/recompute/", "snapshots/read/index/"],
    endpoints: ["marketIndex", "indexParts", "indexPart", "marketAbsence"],
  },
  parts: {
    files: ["snapshots/publish/parts/", "scripts/snapshot/publish-parts.ts"],
    endpoints: [],
  },
  site: {
    files: ["proxy/site/page/", "proxy/site/files.ts", "proxy/site/index.html"],
    endpoints: ["site", "siteFile"],
  },
  feed: {
    files: ["proxy/feed/", "snapshots/read/feed/", "schemas/rooms/feed.ts"],
    endpoints: ["scoreFeed"],
  },
};

/** Files of the core that may name a room, a row for each. */
const tables = [
  "proxy/routes/answers.ts",
  "proxy/routes/checks.ts",
  "proxy/server.ts",
  "proxy/start.ts",
  "schemas/endpoints.ts",
  "schemas/addresses.ts",
  "schemas/openapi/document.ts",
  "schemas/openapi/operations.ts",
  "scripts/keys.ts",
  "scripts/snapshot/maintain.ts",
  "scripts/snapshot/publish-run.ts",
  "scripts/snapshot/publish.ts",
];

const read = (file: string) => readFile(join(root, file), "utf8");

const isIn = (room: Room, file: string) =>
  room.files.some((entry) => (entry.endsWith("/") ? file.startsWith(entry) : file === entry));
const roomOf = (file: string) => Object.keys(rooms).find((name) => isIn(rooms[name]!, file)) ?? "core";

const imports = /^(?:import|export) (?:type )?\{([^}]*)\} from "(\.[^"]+)";\n/gm;

/** The targets of a source's imports. */
const targetsOf = (file: string, text: string) =>
  [...text.matchAll(/(?:\bfrom|\bimport)\s*\(?\s*"(\.[^"]+)"/g)].map(([, target]) =>
    posix.join(dirname(file), target!),
  );

/**
 * A source of the core without its imports from rooms and without the rows that name what they gave: a row is a line,
 * or lines up to where their brackets close. A name that a row declares goes with it. Takes rows of endpoints too.
 */
function withoutRooms(file: string, text: string): string {
  const names = new Set<string>();
  const rest = text.replace(imports, (line, list: string, target: string) => {
    if (roomOf(posix.join(dirname(file), target)) === "core") return line;
    for (const name of list.split(",")) names.add(name.trim().replace(/^type |^\w+ as /g, ""));
    names.delete("");
    return "";
  });
  const ids = Object.values(rooms).flatMap((room) => room.endpoints);
  let lines = rest.split("\n");
  for (let size = -1; size !== names.size; ) {
    size = names.size;
    const named = new RegExp(`(?<![\\w$"'/]|(?<!\\.\\.)\\.)(?:${[...names].join("|")})(?![\\w$:"'])`);
    const row = new RegExp(`^\\s*(?:${ids.join("|")}):`);
    const kept: string[] = [];
    for (let at = 0; at < lines.length; at++) {
      const code = lines[at]!.replace(/\/\/.*|^\s*\/?\*.*/, "");
      if (!(names.size > 0 && named.test(code)) && !row.test(code)) kept.push(lines[at]!);
      else {
        const declared = /\b(?:const|using) (\w+) =/.exec(code)?.[1];
        if (declared) names.add(declared);
        for (let depth = 0; ; at++) {
          depth += lines[at]!.match(/[([{]/g)?.length ?? 0;
          depth -= lines[at]!.match(/[)\]}]/g)?.length ?? 0;
          if (depth <= 0) break;
        }
      }
    }
    lines = kept;
  }
  return lines.join("\n");
}

describe("rooms", () => {
  test("import the core and not each other, and the core names them in its tables alone", async () => {
    const wrong: string[] = [];
    for (const file of files.filter((name) => /\.tsx?$/.test(name)))
      for (const target of targetsOf(file, await read(file))) {
        const [from, to] = [roomOf(file), roomOf(target)];
        if (to !== "core" && from !== to && !(from === "core" && tables.includes(file)))
          wrong.push(`${file} imports ${target}`);
      }
    expect(wrong).toEqual([]);
  });

  test("consist of files that are there", () => {
    const entries = Object.values(rooms).flatMap((room) => room.files);
    expect(entries.filter((entry) => !files.some((file) => file.startsWith(entry)))).toEqual([]);
    for (const id of Object.values(rooms).flatMap((room) => room.endpoints))
      expect(endpoints).toHaveProperty(id);
  });
});

describe("the core alone", () => {
  let folder: string;
  const project = () => join(folder, "project");
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "prs-rooms-"));
    await copyProject(
      project(),
      files.filter((file) => roomOf(file) === "core"),
    );
    for (const file of tables) await writeFile(join(project(), file), withoutRooms(file, await read(file)));
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  test("compiles", async () => {
    // A row may have been the only one that used a name.
    const unused = ["--noUnusedLocals", "false", "--noUnusedParameters", "false"];
    const { stdout } = await run(join(root, "node_modules/.bin/tsc"), ["--noEmit", ...unused], {
      cwd: project(),
    }).catch((error: { stdout: string }) => error);
    expect(stdout).toBe("");
  });

  test("publishes, verifies and serves, and has no address of a room", async () => {
    const commands = commandsOf(project(), folder);
    onTestFinished(() => commands.stop());
    await commands.run("sample", "--out", "sources", "--markets", "400", "--protocols", "3");
    await commands.run("snapshot", "publish", "--store", "store", "--sources", "sources");
    expect((await commands.run("snapshot", "verify", "--store", "store")).stdout).toContain("All good");
    const issue = ["issue", "--store", "store", "--plan", "aegis", "--owner", "me", "--json"];
    const { key } = JSON.parse((await commands.run("keys", ...issue)).stdout);
    const proxy = startUnit({
      program: process.execPath,
      args: [...nodeOptions, join(project(), "scripts/proxy.ts")],
      cwd: folder,
      env: { INIT_CWD: folder, SNAPSHOT_STORE: "store", PORT: "0" },
    });
    onTestFinished(() => proxy.kill());
    const port = await proxy.listening();
    const ask = async (path: string) => (await call(port, path, { headers: bearer(key) })).status;
    await until("the proxy to be ready", async () => (await ask("/readyz")) === 200);
    for (const path of ["/api/v1/scores", "/api/v1/markets/historical?category=crypto", "/openapi.json"])
      expect([path, await ask(path)]).toEqual([path, 200]);
    for (const path of ["/delta-sharing/shares", "/mcp", "/api/v1/ws/scores", "/"])
      expect([path, await ask(path)]).toEqual([path, 404]);
  });
});

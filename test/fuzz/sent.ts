import { mkdir, mkdtemp, open, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { Agent } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { DuckDBInstance } from "@duckdb/node-api";
import { archiveRoot, Change, IntegrityError, linesFromEnd } from "../../proxy/site/client/client.ts";
import { isFault } from "../../schemas/errors.ts";
import { toolLimits } from "../../schemas/rooms/agents.ts";
import { formatVersion } from "../../schemas/versions.ts";
import { CopyFolder } from "../../scripts/copy/copy-folder.ts";
import { fileOf, LineWriter, linesOf, mergeChanges, treeOf, wholeLines } from "../../scripts/copy/lines.ts";
import { readerOptions, rowsBy, writeParquet } from "../../snapshots/export/parquet-file.ts";
import { openSession, withConnection } from "../../snapshots/sources/duckdb/duckdb.ts";
import { quoted } from "../../snapshots/sources/duckdb/sql-literals.ts";
import { startTestProxy } from "../helpers/http/proxy.ts";
import { call } from "../helpers/http/proxy-client.ts";
import { market } from "../helpers/publish/records.ts";
import { need, needSame, parted, refused, refusedLater, type Target } from "./target.ts";

const digest = "ab".repeat(32);

let made: Promise<string> | undefined;
/** A folder for the files of all targets here. */
function folder(): Promise<string> {
  made ??= mkdtemp(join(tmpdir(), "prs-fuzz-files-"));
  return made;
}
async function removeFolder(): Promise<void> {
  if (made) await rm(await made, { recursive: true });
  made = undefined;
}

const texts = Array.from({ length: 3 }, (_, index) => JSON.stringify({ ...market(index), dimensions: [] }));
const linesWith = (some: readonly string[]) => some.map((text) => `${text}\n`).join("");
const puts = texts.map((text) => `{"op":"put","market":${text}}`);
const deletion = `{"op":"delete","id":"${market(1).id}"}`;

const lines: Target = {
  seeds: () => [
    linesWith(texts.toReversed()),
    `${linesWith(texts.toReversed())}\0${linesWith([deletion, puts[2]!])}`,
    `${linesWith([texts[0]!])}\0${linesWith([puts[1]!.replace("Will", "\u2028")])}`,
  ],
  words: ["\u2029"],
  async run(input) {
    const path = await folder();
    const [old, news, merged] = [join(path, "old"), join(path, "news"), join(path, "merged")];
    const [archive, changes] = parted(input);
    await writeFile(old, archive);
    await writeFile(news, changes);
    const count = await wholeLines(old);
    await wholeLines(news);
    const read: Buffer[] = [];
    for await (const line of linesOf(old)) read.push(Buffer.from(line));
    need(read.length === count, "there are as many lines as were counted");
    const again = new LineWriter(await open(merged, "w"));
    for (const line of read) await again.write(line);
    await again.close();
    const end = archive.lastIndexOf(10) + 1;
    need((await readFile(merged)).equals(archive.subarray(0, end)), "lines are what was written");
    await using file = await fileOf(old);
    const fromEnd: Buffer[] = [];
    for await (const line of linesFromEnd(file)) fromEnd.push(Buffer.from(line));
    needSame(fromEnd.toReversed().map(String), read.map(String), "lines from the end");
    const tree = await treeOf(old);
    const roots = Object.values(await archiveRoot(fromEnd));
    needSame([tree.archiveRoot, tree.lines], roots, "the root that sync and that the client computes");
    const told = changes.toString().split("\n").slice(0, -1);
    const named = told.map((line) => refused(() => new Change(line), IntegrityError));
    const merging = () => mergeChanges(old, news, merged).then(() => true);
    const isMerged = await refusedLater(merging, IntegrityError);
    need(!isMerged === named.includes(undefined), "a change is one wherever it is read");
    if (!isMerged) return;
    const gone = new Set(named.map((change) => change!.id));
    const left = read.filter((line) => !gone.has(line.toString("latin1", 7, 43)));
    const came = named.flatMap((change) => (change!.op === "put" ? [change!.text] : []));
    const now = (await readFile(merged, "utf8")).split("\n").slice(0, -1);
    needSame(now.toSorted(), [...left.map(String), ...came].toSorted(), "what is merged");
  },
  end: removeFolder,
};

const roots = { archiveRoot: digest, indexRoot: digest };
const state = { snapshotId: digest, commit: 3, ...roots, lines: 1, bytes: 3, checkpoint: "x" };
const whole = { kind: "whole", snapshotId: digest, cursor: "x", count: 4 };
const known = { method: digest, segments: [] };

const copyState: Target = {
  seeds: () => [
    `${JSON.stringify({ formatVersion, ...state })}\0${JSON.stringify(whole)}\0${JSON.stringify(known)}`,
    `${JSON.stringify(state)}\0${JSON.stringify({ kind: "changes", since: digest, snapshotId: digest, count: 1 })}`,
  ],
  async run(input) {
    const path = join(await folder(), "copy");
    const copy = await CopyFolder.open(path);
    const current = join(path, ".sync/current");
    if ((await mkdir(join(path, ".sync/copy-1"), { recursive: true })) !== undefined)
      await symlink("copy-1", current);
    const [told, rest] = parted(input);
    const [download, index] = parted(rest);
    await writeFile(join(current, "archive.ndjson"), "{}\n");
    await writeFile(join(current, "state.json"), told);
    await writeFile(join(current, "index.json"), index);
    await writeFile(join(path, ".sync", "work", "download.json"), download);
    try {
      const found = await refusedLater(() => copy.state(), "COPY_FOLDER");
      if (found) {
        need(found.bytes === 3, "a copy is as long as its state says");
        await copy.note(found);
        needSame(await copy.state(), found, "a state that was noted again");
      }
      const begun = await copy.download();
      if (begun) {
        await copy.begin(begun);
        needSame(await copy.download(), begun, "a download that was begun again");
      }
      const had = await copy.index();
      if (had && found) {
        await copy.note(found, had);
        needSame(await copy.index(), had, "an index that was noted again");
      }
    } finally {
      await copy.close();
    }
  },
  end: removeFolder,
};

let served: Promise<{ port: number; key: string; stop(): Promise<void> }> | undefined;
const agent = new Agent({ keepAlive: true, maxSockets: 1 });
function service() {
  served ??= (async () => {
    const proxy = await startTestProxy({ logLevel: "fatal", markets: 5 });
    return { port: proxy.port, key: await proxy.issue({ quota: 2 ** 31 }), stop: proxy.stop };
  })();
  return served;
}

const calling = (name: string, given: object) =>
  JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params: { name, arguments: given } });

const mcp: Target = {
  seeds: () => [
    JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/list", params: {} }),
    calling("explain_numbers", {}),
    calling("list_scores", { limit: 2, skip: 1 }),
    calling("get_score", { slug: "aave", proof: true }),
    calling("compare_protocols", { slugs: ["aave", "none"] }),
    calling("score_history", { slug: "aave", asOf: "2026-03-01" }),
    calling("search_markets", { q: "will", tier: ["RAW", "CAST"], min_composite: 300, pageSize: 2 }),
    calling("count_markets", { by: ["tier", "month"] }),
    `${calling("get_market", { id: market(2).id })}\0 2025-11-25`,
  ],
  words: ["initialize", "protocolVersion", "capabilities", "clientInfo", "cursor", "_meta", "__proto__"],
  async run(input) {
    const { port, key } = await service();
    const [body, version] = parted(input);
    const answer = await call(port, "/mcp", {
      method: "POST",
      agent,
      headers: {
        authorization: `Bearer ${key}`,
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        ...(/^[ -~]+$/.test(version.toString()) && { "mcp-protocol-version": version.toString().trim() }),
      },
      body,
    });
    need(answer.status < 500, `${answer.status}: ${answer.text.slice(0, 500)}`);
    if (answer.text === "") return;
    const json = /^text\/event-stream/.test(answer.headers["content-type"] ?? "")
      ? JSON.parse(/^data: (.*)$/m.exec(answer.text)![1]!)
      : answer.json();
    need(json.jsonrpc === "2.0", "an answer is one of the protocol");
    // The SDK tells what is wrong with parameters by this code, too (modelcontextprotocol/typescript-sdk#2284).
    const { code, message } = json.error ?? {};
    need(code !== -32603 || /^\[\s*\{.*"path": /s.test(message), `an internal error: ${message}`);
    const [content] = json.result?.content ?? [];
    if (content === undefined) return;
    need(content.text.length <= toolLimits.resultBytes, "a result is short");
    const problem = json.result.isError ? JSON.parse(content.text) : undefined;
    need(!(problem?.status >= 500), `a problem: ${content.text}`);
  },
  async end() {
    agent.destroy();
    await (await served)?.stop();
    served = undefined;
  },
};

let reader: Promise<DuckDBInstance> | undefined;
/** One for all inputs, since opening it takes far longer than reading. */
async function closeReader(): Promise<void> {
  (await reader)?.closeSync();
  reader = undefined;
}

const parquet: Target = {
  async seeds() {
    const path = await folder();
    const [from, to] = [join(path, "lines"), join(path, "parquet")];
    await writeFile(from, linesWith(texts.slice(0, 1)));
    await writeParquet(from, to, path, [texts[0]!.length]);
    // The two columns that are read, by themselves: most of what changes in them is no damage to the file.
    const plain = (n: number) => `SELECT '${market(n).id}' AS id, '${texts[n]}' AS json`;
    const file = join(path, "plain");
    const instance = await openSession({ memoryMegabytes: 100, temporaryDirectory: path, ordered: true });
    const copy = `COPY (${plain(0)} UNION ALL ${plain(1)}) TO ${quoted(file)}`;
    await withConnection(instance, (sql) => sql.run(`${copy} (FORMAT parquet, COMPRESSION uncompressed)`));
    instance.closeSync();
    return [await readFile(to), await readFile(file)];
  },
  maxBytes: 16_384,
  async run(input) {
    const path = await folder();
    const file = join(path, "file.parquet");
    await writeFile(file, input);
    reader ??= openSession(readerOptions(file, path));
    try {
      await withConnection(await reader, async (connection) => {
        for await (const leaf of rowsBy(connection, file)) need(leaf.length === 32, "a row has a leaf");
      });
    } catch (error) {
      // DuckDB's own errors have no class.
      if (!isFault(error, "EXPORT_WRONG") && Object.getPrototypeOf(error) !== Error.prototype) throw error;
      // After an error of its own making a database reads nothing more.
      if (/^(FATAL|INTERNAL)/.test((error as Error).message)) await closeReader();
    }
  },
  async end() {
    await closeReader();
    await removeFolder();
  },
};

export const targets: Record<string, Target> = { lines, state: copyState, mcp, parquet };

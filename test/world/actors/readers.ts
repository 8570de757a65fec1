import type { ScoreList } from "../../../schemas/envelopes.ts";
import type { ErrorCode } from "../../../schemas/errors.ts";
import { keyRing } from "../../../snapshots/keys/keys.ts";
import { askPage, parseArchiveQuery } from "../../../snapshots/read/archive/paging.ts";
import { Catalog } from "../../../snapshots/read/catalog/catalog.ts";
import { openExports } from "../../../snapshots/read/catalog/exports.ts";
import { openPublicLog } from "../../../snapshots/read/catalog/public-log.ts";
import { changesReader, parseChangesQuery } from "../../../snapshots/read/changes/changes.ts";
import { sha256 } from "../../../snapshots/store/layout.ts";
import { openCheckpointFile } from "../../../snapshots/trust/log/checkpoints.ts";
import { readAnyLog, readSignedLog } from "../../../snapshots/trust/log/log-reader.ts";
import { Trust } from "../../../snapshots/trust/trust.ts";
import { must, type Process } from "../kernel/kernel.ts";
import type { Action } from "../plan.ts";
import type { Server, World } from "../world.ts";
import { insist, requireReadable } from "./asking.ts";
import { takeExport } from "./exports.ts";
import { answerOf } from "./gate.ts";
import { reloadKeys } from "./keys-read.ts";
import { type Filter, filters, linesOf, lookBack, parametersOf } from "./looks.ts";
import { key, policy } from "./witness.ts";

/** Polls the store, as a proxy does, for as long as it runs. */
export async function proxyOnce(world: World, process: Process, { choices }: Action) {
  const { look, close } = await openProxy(world, process, choices[0]! % 2);
  const polls = 3 + (choices[1]! % 8);
  const most = [2, 20, 600, 7200, 40_000][choices[2]! % 5]! * 1000;
  for (let poll = 0; poll < polls; poll += 1) {
    await look();
    await world.kernel.wait(process, process.draw(most));
  }
  close();
}

/** Starts a proxy on a machine, which remembers what log it has seen. `look` polls the store. */
export async function openProxy(world: World, process: Process, machine: number) {
  const { kernel, judge, plan, store } = world;
  const storage = store.of(process);
  const file = await openCheckpointFile(`/world/proxy-${machine}/checkpoint`);
  const refused = (error: Error) => kernel.note(`${process.name} refuses: ${error.message}`);
  const reader = plan.signed
    ? readSignedLog(storage, new Trust(plan.witnessed ? policy : [key]), { file, refused })
    : readAnyLog(storage);
  const catalog = new Catalog(storage, { cacheBytes: 300_000, pollSeconds: 5, reader });
  const exports = openExports(storage, catalog, reader);
  const publicLog = openPublicLog(storage, catalog.log, reader);
  const keys = keyRing(storage, { now: () => Date.now(), damaged: refused });
  const server: Server = { process, catalog, exports, publicLog, changes: changesReader(catalog), keys };
  let shown = 0;
  world.servers.push(server);
  const look = async () => {
    try {
      await catalog.refresh();
      const { commit } = catalog.requireCurrent();
      const published = judge.digests.has(commit.digest);
      must("readers see a published snapshot", published, () => `${commit.commit} of ${process.name}`);
      must("readers never go back", commit.commit >= shown, () => `${commit.commit} after ${shown}`);
      shown = commit.commit;
      kernel.note(`${process.name} shows ${shown}`);
    } catch (error) {
      requireReadable(world, error);
      kernel.note(`${process.name} cannot refresh: ${error}`);
    }
    await reloadKeys(world, server);
  };
  return { look, close: () => void world.servers.splice(world.servers.indexOf(server), 1) };
}

interface Page {
  snapshotId: string;
  lines: string[];
  total: number;
  nextCursor: string | null;
}

async function pageOf({ catalog }: Server, search: string): Promise<Page> {
  const query = parseArchiveQuery(parametersOf(search));
  const asked = await askPage(catalog, query);
  const plan = await asked.plan();
  const parts = await plan.body({ tier: "aegis", timestamp: "", gzip: false });
  const { markets, total, nextCursor } = JSON.parse(String(Buffer.concat(parts)));
  return {
    snapshotId: asked.commit.snapshotId,
    lines: markets.map((each: object) => JSON.stringify(each)),
    total,
    nextCursor,
  };
}

/** Walks, follows what changes, and walks again. */
export async function clientOnce(world: World, process: Process, { choices }: Action) {
  const [which = 0, size = 0, pause = 0] = choices;
  const filter = filters[which % filters.length]!;
  const pageSize = 1 + (size % 20);
  const between = [10, 2000, 300_000, 7_200_000][pause % 4]!;
  let before: string | undefined;
  for (let round = 0; round < 2; round += 1) {
    const seen = await walk(world, process, { filter, pageSize, between });
    if (before !== undefined && seen !== undefined) await follow(world, process, before, seen);
    before = seen ?? before;
    await lookBack(world, process, filter);
    await takeExport(world, process);
    await takeScores(world, process);
    await world.kernel.wait(process, process.draw(between * 10));
  }
}

/** Takes all scores from one of the proxies, over HTTP. */
async function takeScores(world: World, process: Process): Promise<void> {
  const take = (server: Server) => answerOf(world, server, "/api/v1/scores", {});
  const answer = await insist(world, process, take, () => true);
  if (answer?.status !== 200) return;
  const { "x-snapshot-id": snapshotId = "", etag } = answer.headers;
  const content = world.judge.contentOf(snapshotId);
  must("an answer has the tag of its bytes", etag === `"${sha256(answer.body)}"`, () => `${etag}`);
  const { scores } = JSON.parse(String(answer.body)) as ScoreList;
  const told = scores.map(({ slug, bri }) => `${slug} ${bri}`);
  const right = content.slugs.map((slug) => `${slug} ${content.bri}`);
  must("scores agree with the model", told.sort().join() === right.sort().join(), () => told.join());
  world.kernel.note(`${process.name} has taken ${scores.length} scores`);
}

interface Walk {
  filter: Filter;
  pageSize: number;
  between: number;
}

/** Walks through what a filter selects. Returns the id of the snapshot, or undefined when it broke off. */
async function walk(
  world: World,
  process: Process,
  { filter, pageSize, between }: Walk,
): Promise<string | undefined> {
  const { judge, kernel } = world;
  const lines: string[] = [];
  let cursor: string | null | undefined;
  let pinned: string | undefined;
  const codes: ErrorCode[] = ["SNAPSHOT_UNAVAILABLE", "CURSOR_EXPIRED", "SNAPSHOT_EXPIRED"];
  const isDocumented = (code: ErrorCode) => codes.includes(code) || judge.thieves.size > 0;
  do {
    const search = `${filter.search}${cursor ? `cursor=${cursor}` : `pageSize=${pageSize}`}`;
    const page = await insist(world, process, (server) => pageOf(server, search), isDocumented);
    if (!page) return undefined;
    const content = judge.contentOf(page.snapshotId);
    must("a walk stays with one snapshot", (pinned ?? page.snapshotId) === page.snapshotId);
    pinned = page.snapshotId;
    const expected = linesOf(content, filter);
    must("totals are exact", page.total === expected.length, () => `${page.total} of ${expected.length}`);
    lines.push(...page.lines);
    const right = lines.every((line, place) => line === expected[place]);
    must("a walk agrees with the model", right, () => `${process.name} in ${content.name}`);
    cursor = page.nextCursor;
    must("a walk ends with the last market", (cursor === null) === (lines.length === expected.length));
    await kernel.wait(process, process.draw(between));
  } while (cursor);
  kernel.note(`${process.name} has walked ${lines.length}`);
  return pinned;
}

/** Asks what changed between two snapshots. */
async function follow(world: World, process: Process, since: string, until: string): Promise<void> {
  const { judge } = world;
  const codes: ErrorCode[] = ["SNAPSHOT_EXPIRED", "SNAPSHOT_UNAVAILABLE", "SNAPSHOT_NOT_FOUND"];
  const ask = async ({ changes }: Server) => {
    const query = parseChangesQuery(parametersOf(`since=${since}&until=${until}`));
    const asked = await changes(query, { gone: () => false, pay: async () => {} });
    const { read } = await asked.plan();
    let text = "";
    for await (const chunk of read()) text += chunk.text;
    return text;
  };
  const answer = await insist(world, process, ask, (code) => codes.includes(code));
  if (answer === undefined) return;
  const [older, newer] = [judge.contentOf(since), judge.contentOf(until)];
  const idOf = (line: string) => JSON.parse(line).id as string;
  const left = new Set(newer.lines.map(idOf));
  const gone = older.lines.map(idOf).filter((id) => !left.has(id));
  const deletes = gone.sort().map((id) => `{"op":"delete","id":"${id}"}`);
  const puts = newer.lines.filter((line) => !older.lines.includes(line));
  const told = answer.split("\n").filter((line) => line !== "");
  const right =
    told.length === deletes.length + puts.length && deletes.every((line, at) => told[at] === line);
  const same = right && puts.every((line, at) => told[deletes.length + at]!.includes(line));
  must("changes agree with the model", same, () => `${older.name} to ${newer.name}: ${answer}`);
  world.kernel.note(`${process.name} is told ${told.length} changes`);
}

import { gunzipSync, gzipSync } from "node:zlib";
import { ask, jsonOf, type Target } from "../load/client.ts";
import { type Loaded, prepareLoad } from "../load/load.ts";
import { startArchivePeer, startConstantPeer } from "../peers/peers.ts";
import { cursorAfter } from "../peers/sql.ts";
import type { Measurement } from "../run/measurement.ts";
import { proxyConfiguration, startProxy } from "../run/proxy.ts";
import { type Bench, inTurn } from "../run/run.ts";

/** Enough to keep a server busy, and few enough that answers of 500 markets do not queue for long. */
const connections = 8;
const archive = "/api/v1/markets/historical";
const pageSize = 500;

interface Walk {
  ours: string[];
  /** The same pages, as the peer's addresses. */
  peers: string[];
  rowsPerPage: number;
  bytesPerPage: number;
}

/** Rows 1 and 2: a walk through the whole archive, unfiltered. */
export async function measureWalk(bench: Bench): Promise<Measurement[]> {
  const ours = await startProxy(bench, await bench.data.store());
  bench.say("walking once for the cursors");
  const walk = await walkOnce(ours);
  const oursLoad = await prepareLoad(bench, {
    target: ours,
    name: "walk-ours",
    paths: walk.ours,
    connections,
  });
  const wants = (row: number) => bench.options.rows.includes(row);
  const measurements: Measurement[] = [];
  if (wants(1)) measurements.push(await againstPostgres(bench, ours, walk, oursLoad));
  if (wants(2)) measurements.push(await againstConstant(bench, walk, oursLoad));
  return measurements;
}

async function againstPostgres(
  bench: Bench,
  ours: Target,
  { ours: paths, peers, rowsPerPage }: Walk,
  oursLoad: () => Promise<Loaded>,
): Promise<Measurement> {
  const peer = await startArchivePeer(bench);
  await compareBodies(ours, paths, peer, peers);
  const peerLoad = await prepareLoad(bench, { target: peer, name: "walk-peer", paths: peers, connections });
  const rows = async (load: () => Promise<Loaded>) => (await load()).requestsPerSecond * rowsPerPage;
  const rounds = await inTurn(bench.options.effort.rounds, {
    ours: () => rows(oursLoad),
    peer: () => rows(peerLoad),
  });
  return {
    row: 1,
    work: "unfiltered walk, 500 a page, gzip",
    unit: "rows/s",
    ours: rounds.ours,
    peer: { name: "Express + PostgreSQL", rounds: rounds.peer },
    goal: { of: "ratio", at: "least", limit: 50 },
    note: `${connections} connections; the proxy has ${proxyConfiguration}; the peer checks no keys and counts none`,
  };
}

async function againstConstant(
  bench: Bench,
  { rowsPerPage, bytesPerPage }: Walk,
  oursLoad: () => Promise<Loaded>,
): Promise<Measurement> {
  const constant = await startConstantPeer(bench, "page", constantOf(Math.round(bytesPerPage)));
  const load = await prepareLoad(bench, {
    target: constant,
    name: "constant",
    paths: ["/constant"],
    connections,
  });
  const sizes: number[] = [];
  const rows = async (side: () => Promise<Loaded>) => {
    const { requestsPerSecond, bytesPerRequest } = await side();
    sizes.push(bytesPerRequest);
    return requestsPerSecond * rowsPerPage;
  };
  const { rounds } = bench.options.effort;
  const figures = await inTurn(rounds, { ours: () => rows(oursLoad), peer: () => rows(load) });
  return {
    row: 2,
    work: "the same",
    unit: "rows/s",
    ours: figures.ours,
    peer: { name: "Express, a constant", rounds: figures.peer },
    goal: { of: "ratio", at: "least", limit: 0.5 },
    note: `bytes an answer with its head: ours ${Math.round(sizes.at(-2)!)}, constant ${Math.round(sizes.at(-1)!)}`,
  };
}

/** Bytes of this number that look like gzip to a client; wrk does not unpack them. */
function constantOf(bytes: number): Buffer {
  const stored = gzipSync(Buffer.alloc(bytes), { level: 0 });
  return stored.subarray(0, bytes);
}

/** Follows the cursors from the first page to the last. */
async function walkOnce(target: Target): Promise<Walk> {
  const walk = { ours: [`${archive}?pageSize=${pageSize}`], peers: [`/markets?pageSize=${pageSize}`] };
  let [bytes, rows] = [0, 0];
  for (let path = walk.ours[0]; path !== undefined; ) {
    const { sent } = await ask(target, path);
    const text = gunzipSync(sent).toString("utf8");
    // Of a body of megabytes only its head and its last market are needed.
    const head = JSON.parse(`${text.slice(0, text.indexOf(',"markets":['))}}`);
    bytes += sent.length;
    rows += head.count;
    path = head.nextCursor === null ? undefined : `${archive}?cursor=${head.nextCursor}`;
    if (path === undefined) break;
    walk.ours.push(path);
    const last = text.slice(text.lastIndexOf('{"id":"'));
    const [, id] = /^\{"id":"([^"]+)"/.exec(last)!;
    const [, resolvedAt] = /"resolvedAt":"([^"]+)"/.exec(last)!;
    walk.peers.push(`/markets?pageSize=${pageSize}&cursor=${cursorAfter(resolvedAt!, id!)}`);
  }
  return { ...walk, rowsPerPage: rows / walk.ours.length, bytesPerPage: bytes / walk.ours.length };
}

/** Both must tell the same markets, totals and counts: at the beginning, in the middle and at the end. */
async function compareBodies(ours: Target, paths: string[], peer: Target, peers: string[]): Promise<void> {
  for (const place of [0, Math.floor(paths.length / 2), paths.length - 1]) {
    const [left, right] = [jsonOf(await ask(ours, paths[place]!)), jsonOf(await ask(peer, peers[place]!))];
    sameAnswers(left, right, paths[place]!);
  }
}

/** Throws when two envelopes do not hold the same markets. */
export function sameAnswers(left: Envelope, right: Envelope, path: string): void {
  const content = ({ count, total, markets, nextCursor }: Envelope) =>
    JSON.stringify({ count, total, more: nextCursor !== null, markets });
  if (content(left) === content(right)) return;
  throw new Error(
    `the two sides do not answer ${path} alike: ${left.count} of ${left.total} and ${right.count} of ${right.total}`,
  );
}

interface Envelope {
  count: number;
  total: number;
  nextCursor: string | null;
  markets: unknown[];
}

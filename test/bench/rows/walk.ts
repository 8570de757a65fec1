import { gunzipSync, gzipSync } from "node:zlib";
import { ask, jsonOf, type Target } from "../load/client.ts";
import { type Loaded, prepareLoad } from "../load/load.ts";
import { startArchivePeer, startConstantPeer } from "../peers/peers.ts";
import { cursorAfter } from "../peers/sql.ts";
import { against, atLeast, line, type Measurement } from "../run/measurement.ts";
import { proxyConfiguration, startProxy } from "../run/proxy.ts";
import { type Bench, inTurn } from "../run/run.ts";

/** Enough to keep a server busy, and few enough that answers of 500 markets do not queue for long. */
const connections = 8;
const archive = "/api/v1/markets/historical";
const pageSize = 500;

/** Rows 1 and 2: a walk through the whole archive, unfiltered. */
export async function measureWalk(bench: Bench): Promise<Measurement[]> {
  const ours = await startProxy(bench);
  bench.say("walking once for the cursors");
  const walk = await walkOnce(ours);
  const loadOf = (name: string, target: Target, paths: string[]) =>
    prepareLoad(bench, { target, name, paths, connections });
  const oursLoad = await loadOf("walk-ours", ours, walk.ours);
  let sizes: number[] = [];
  /** Rows a second of both sides. */
  const byTurns = (peerLoad: () => Promise<Loaded>) => {
    const rows = async (load: () => Promise<Loaded>) => {
      const { requestsPerSecond, bytesPerRequest } = await load();
      sizes = [...sizes, bytesPerRequest];
      return requestsPerSecond * walk.rowsPerPage;
    };
    const sides = { ours: () => rows(oursLoad), peer: () => rows(peerLoad) };
    return inTurn(bench.options.effort.rounds, sides);
  };
  const measurements: Measurement[] = [];
  if (bench.wants(1)) {
    const peer = await startArchivePeer(bench);
    await compareBodies(ours, walk.ours, peer, walk.peers);
    const rounds = await byTurns(await loadOf("walk-peer", peer, walk.peers));
    measurements.push(
      line(1, "unfiltered walk, 500 a page, gzip", "rows/s", rounds.ours, {
        ...against("Express + PostgreSQL", rounds.peer),
        ...atLeast(50),
        note: `${connections} connections; the proxy has ${proxyConfiguration}; the peer checks no keys and counts none`,
      }),
    );
  }
  if (bench.wants(2)) {
    const constant = await startConstantPeer(bench, "page", constantOf(Math.round(walk.bytesPerPage)));
    const rounds = await byTurns(await loadOf("constant", constant, ["/constant"]));
    const [own, others] = sizes.slice(-2).map(Math.round);
    measurements.push(
      line(2, "the same", "rows/s", rounds.ours, {
        ...against("Express, a constant", rounds.peer),
        ...atLeast(0.5),
        note: `bytes an answer with its head: ours ${own}, constant ${others}`,
      }),
    );
  }
  return measurements;
}

/** Bytes of this number that look like gzip to a client; wrk does not unpack them. */
function constantOf(bytes: number): Buffer {
  const stored = gzipSync(Buffer.alloc(bytes), { level: 0 });
  return stored.subarray(0, bytes);
}

/** Follows the cursors from the first page to the last: the pages as ours and as the peer's addresses. */
async function walkOnce(target: Target) {
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

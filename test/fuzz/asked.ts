import { EventEmitter } from "node:events";
import { Readable } from "node:stream";
import express from "express";
import type { WebSocket } from "ws";
import { presentedKey } from "../../proxy/access/identity.ts";
import { defaultLimits } from "../../proxy/config.ts";
import { newExchange, type Request } from "../../proxy/exchange.ts";
import { feedClient } from "../../proxy/feed/live-feed.ts";
import {
  heldTag,
  inForms,
  preferred,
  preferredCoding,
  tagsOf,
  uncachedJson,
} from "../../proxy/reply/reply.ts";
import { fileReply } from "../../proxy/reply/stream.ts";
import { readBody } from "../../proxy/routes/checks.ts";
import { endpoints } from "../../schemas/endpoints.ts";
import { errorCodes } from "../../schemas/envelopes.ts";
import { paging } from "../../schemas/filters.ts";
import { maxCursorLength } from "../../schemas/query.ts";
import { FeedCommand } from "../../schemas/rooms/feed.ts";
import type { ExportFile } from "../../schemas/store/stored-objects.ts";
import { parseAsOf } from "../../snapshots/read/answer.ts";
import { parseFacetQuery } from "../../snapshots/read/archive/counts.ts";
import { csvByType } from "../../snapshots/read/archive/csv.ts";
import { decodeCursor, encodeCursor, parseArchiveQuery } from "../../snapshots/read/archive/paging.ts";
import { parseRowsQuery, rowsByType } from "../../snapshots/read/archive/rows.ts";
import { parseChangesQuery } from "../../snapshots/read/changes/changes.ts";
import { parsePartsQuery } from "../../snapshots/read/index/index-parts.ts";
import { parseAbsenceQuery } from "../../snapshots/read/index/market-index.ts";
import { type ArchiveFilter, parseCanonicalFilter, readParameters } from "../../snapshots/read/parameters.ts";
import { prunedFiles } from "../../snapshots/read/sharing/hints.ts";
import type { ByteRange } from "../../snapshots/store/storage.ts";
import { need, needSame, parted, refused, refusedLater, type Target } from "./target.ts";

const digest = "ab".repeat(32);
const id = "00000000-0000-4000-8000-000000000000";

/** A filter is what its canonical text says, so that a cursor carries it. */
function requireCanonical(filter: ArchiveFilter): void {
  needSame(parseCanonicalFilter(filter.canonical), filter, "a filter that was read from its canonical text");
  const after = { resolvedAt: Number.MAX_SAFE_INTEGER, id };
  const last = {
    commit: 2 ** 31,
    snapshotId: digest,
    ordinal: 2 ** 31,
    ...after,
    pageSize: paging.maxPageSize,
  };
  need(encodeCursor({ ...last, filter }).length <= maxCursorLength, "a cursor has room for the filter");
}

const query = "category=Crypto&tier=RAW,CAST&disputed=true&min_composite=400&max_composite=500";
const cursorText = (canonical: string) =>
  JSON.stringify([1, digest, 5, 1_735_689_600_000, id, 100, canonical]);

const cursor: Target = {
  seeds: () => [
    cursorText(""),
    cursorText(query),
    cursorText("q=fed will*&from=2025-01-01T00:00:00.000Z"),
    Buffer.from(cursorText("")).toString("base64url"),
  ],
  words: ["&q=", "&to=", "%25", "\\u00e9", "ſ", "İ"],
  run(input) {
    const text = input[0] === 0x5b ? input.toString("base64url") : input.toString();
    const read = refused(() => decodeCursor(text), "INVALID_CURSOR");
    if (!read) return;
    need(encodeCursor(read) === text, "a cursor has one spelling");
    needSame(parseCanonicalFilter(read.filter.canonical), read.filter, "the filter of a cursor");
  },
};

const known = [
  ...endpoints.marketsHistorical.query.map(({ name }) => name),
  "by",
  "limit",
  "since",
  "until",
  "id",
  "of",
];

const archiveQuery: Target = {
  seeds: () => [
    query,
    "q=Will+the+Fed*&page=2&pageSize=10&asOf=2025-01-01",
    `from=2025-01-01T00:00:00%2B02:00&to=2025-12-31&skip=1&cursor=x&asOf=${digest}`,
    `by=month,category&limit=5&min_informed=3`,
    `since=${digest}&until=${digest}&skip=4`,
    `id=${id}&of=${digest},${"cd".repeat(32)}`,
  ],
  words: [...known, "%C3%A9", "ſ", "\ufb03", "Z", "+00:00"],
  run(input) {
    const nothing = { current: () => undefined };
    const { search } = newExchange(`/?${input.toString("latin1")}`, nothing);
    newExchange(input.toString("latin1"), nothing);
    const parameters = refused(() => readParameters(search, known), "INVALID_PARAMETER");
    if (!parameters) return;
    need(search === "" || parameters.size === search.split("&").length, "each name is given once");
    const read = <T>(work: () => T) => refused(work, "INVALID_PARAMETER");
    const asOf = read(() => parseAsOf(parameters));
    if (asOf && "time" in asOf) need(Number.isFinite(asOf.time), "a time is a number");
    for (const parse of [parseArchiveQuery, parseRowsQuery, parseFacetQuery]) {
      const parsed = read(() => parse(parameters, asOf));
      if (parsed) requireCanonical(parsed.filter);
    }
    read(() => parseChangesQuery(parameters));
    read(() => parseAbsenceQuery(parameters));
    const hashes = read(() => parsePartsQuery(parameters));
    if (hashes) need(hashes.length <= 100, "few parts at a time");
  },
};

/** A request with these headers, as Node gives it. */
function requestOf(fields: Record<string, string>): Request {
  const sent = Object.entries(fields).filter(([, value]) => value !== "");
  const headers = Object.fromEntries(sent);
  const told = { headers, rawHeaders: sent.flat(), method: "GET", httpVersion: "1.1" };
  return Object.assign(Object.create(express.request), told);
}

/** The lines of an input. Node lets through no control characters in a header but tabs. */
const linesIn = (input: Buffer) =>
  input
    .toString("latin1")
    .replace(/[^\t\n\x20-\x7e\x80-\xff]/g, "")
    .split("\n");

const headers: Target = {
  seeds: () => [
    `text/csv;header=present, application/x-ndjson;q=0.5, */*;q=0.1\ngzip;q=0.5, identity\nW/"${digest}-gzip", "x"\nBearer prs_x\n\nscores.v1, bearer.prs_x`,
    `application/json\n*;q=0\n*\n\nprs_x`,
  ],
  words: [";charset=utf-8", "header=absent"],
  run(input) {
    const [accept = "", coding = "", tags = "", authorization = "", key = "", protocols = ""] =
      linesIn(input);
    const request = requestOf({
      accept,
      "accept-encoding": coding,
      "if-none-match": tags,
      authorization,
      "x-api-key": key,
      "sec-websocket-protocol": protocols,
    });
    for (const forms of [rowsByType.keys(), csvByType.keys()]) {
      const answerIn = (type: string) => () => uncachedJson({ type });
      const types = new Map([...forms].map((type) => [type, type]));
      const answer = inForms(answerIn("JSON"), types, answerIn);
      const isItsOwn = [answer, ...answer.others!.values()].includes(preferred(request, answer));
      need(isItsOwn, "a form that is preferred is one of the answer's");
    }
    need(["gzip", "identity"].includes(preferredCoding(request)), "a coding is one of two");
    const held = heldTag(request, tagsOf(digest));
    if (held) need(held.tag.startsWith(`"${digest}`), "a tag that is held is ours");
    const { rawHeaders } = request;
    const present = () => presentedKey(rawHeaders, true);
    const presented = refused(present, "INVALID_API_KEY", "CONFLICTING_CREDENTIALS");
    const wasSent = presented === undefined || rawHeaders.some((value) => value.includes(presented));
    need(wasSent, "a key was sent");
  },
};

const range: Target = {
  seeds: () => ["bytes=0-99", "bytes=-5", "bytes=7-", `bytes=5-4\n"${digest}"`, `bytes=0-0,2-3\n"x"\n*`],
  async run(input) {
    const [wanted = "", condition = "", tags = ""] = linesIn(input);
    const bytes = 1 + (input.at(-1) ?? 0);
    const request = requestOf({ range: wanted, "if-range": condition, "if-none-match": tags });
    const asked: ByteRange[] = [];
    const read = (part: ByteRange) => {
      asked.push(part);
      return { count: 0, advice: "", async *read() {} };
    };
    const file = { hash: digest, bytes, contentType: "x", ranges: true, read };
    const reply = refused(() => fileReply(request, file), "RANGE_NOT_SATISFIABLE");
    if (!reply) return;
    const { headers, partial } = await reply.content("identity");
    const [part] = asked as [ByteRange];
    const { offset } = part;
    const isWithin = offset >= 0 && part.bytes > 0 && offset + part.bytes <= bytes;
    need(Number.isInteger(offset) && isWithin, `${part.bytes} from ${offset} of ${bytes}`);
    need(headers?.["Content-Length"] === part.bytes, "a reply tells its length");
    need(Boolean(partial) === (headers?.["Content-Range"] !== undefined), "a part says where it is");
  },
};

const bodies = [endpoints.batchScores.body, endpoints.queryTable.body, endpoints.agents.body];

const body: Target = {
  seeds: () => [
    '\0{"slugs":["aave","curve.fi"]}',
    '\0{"slugs":["aave"]}\0application/json; charset="utf-8"\n100-continue',
    `\x01{"predicateHints":["a = 1"],"jsonPredicateHints":"{}","limitHint":"5","version":1,"timestamp":"x"}`,
    '\x02{"jsonrpc":"2.0"}',
  ],
  words: ["startingVersion", "\u2028", "\ufeff"],
  async run(input) {
    const row = bodies[(input[0] ?? 0) % bodies.length]!;
    const [content, head] = parted(input.subarray(1));
    const [type = "application/json", expect = ""] = head.length > 0 ? linesIn(head) : [];
    const sent = requestOf({ "content-type": type, expect, "content-length": String(content.length) });
    const { headers, rawHeaders, httpVersion } = sent;
    const request = Object.assign(Readable.from([content]), { headers, rawHeaders, httpVersion });
    const exchange = newExchange("", { current: () => undefined });
    const response = { writeContinue() {} };
    const read = readBody(row, defaultLimits);
    const done = await refusedLater(
      async () => {
        await read(request as never, exchange, response as never);
        return true;
      },
      ...errorCodes,
    );
    request.destroy();
    if (done)
      needSame(row.schema.parse(exchange.body), exchange.body, "a body that was read is as documented");
  },
};

const feed: Target = {
  seeds: () => [
    '{"type":"subscribe","slugs":["aave"],"snapshots":true}',
    '{"type":"subscribe","slugs":[]}',
    '{"type":"subscribe","snapshots":false}',
  ],
  async run(input) {
    const sent: string[] = [];
    const socket = Object.assign(new EventEmitter(), {
      bufferedAmount: 0,
      readyState: 1,
      send(text: string, done?: () => void) {
        sent.push(text);
        done?.();
      },
      close() {},
      terminate() {},
      ping() {},
    });
    const change = { snapshotId: digest, publishedAt: "2026-01-01T00:00:00.000Z" };
    const gone = { slug: "aave", previous: {} as never, current: null };
    const removed = { type: "score.removed", ...change, ...gone } as const;
    const counts = { markets: 1, protocols: 1 };
    const published = { type: "snapshot.published", ...change, commit: 1, counts, changes: null } as const;
    const client = feedClient(socket as unknown as WebSocket, {
      identify: () => ({ owner: "acme" }) as never,
      async *pending() {
        yield removed;
        yield published;
      },
      stalledSeconds: 1,
      failed(error) {
        throw error;
      },
    });
    socket.emit("message", input, false);
    await client.advance();
    const command = refused(() => FeedCommand.safeParse(JSON.parse(input.toString())).data, SyntaxError);
    const types = sent.map((text) => JSON.parse(text).type);
    const wanted = [
      ...(command ? [] : ["error"]),
      ...(!command?.slugs || command.slugs.includes("aave") ? ["score.removed"] : []),
      ...(command?.snapshots ? ["snapshot.published"] : []),
    ];
    needSame(types, wanted, "what a client hears");
  },
};

const stats = (least: number, greatest: number): ExportFile["stats"] => ({
  minValues: { composite: least, tier: "CAST", resolved_at: "2025-01-01T00:00:00.000Z" },
  maxValues: { composite: greatest, tier: "RAW", resolved_at: "2025-12-31T00:00:00.000Z" },
  nullCount: { composite: 0, tier: 1, resolved_at: 0 },
});
const files: ExportFile[] = [stats(300, 400), stats(500, 600), undefined].map((told) => ({
  ...{ hash: digest, bytes: 1, rows: 10, root: digest, chunks: { hash: digest, bytes: 32 } },
  ...(told && { stats: told }),
}));
const literal = (valueType: string, value: string) => ({ op: "literal", valueType, value });
const column = (valueType: string, name: string) => ({ op: "column", valueType, name });

const node = (op: string, ...children: object[]) => ({ op, children });

const hints: Target = {
  seeds: () => {
    const isNull = node("isNull", column("string", "tier"));
    const time = literal("timestamp", "2025-06-01T00:00:00Z");
    const isLate = node("lessThan", time, column("timestamp", "resolved_at"));
    const trees = [
      node("equal", column("int", "composite"), literal("int", "350")),
      node("not", node("or", isNull, isLate)),
    ];
    const texts = [
      "composite >= 450",
      "'RAW' = tier\n`tier` IS NOT NULL\nresolved_at < '2025-06-01T00:00:00Z'",
    ];
    return [...texts, ...trees.map((tree) => JSON.stringify(tree))];
  },
  words: ["IS NULL", "<>", "greaterThanOrEqual", "and"],
  run(input) {
    const text = input.toString();
    const json = text.startsWith("{") || text.startsWith("[");
    const given = json ? { jsonPredicateHints: text } : { predicateHints: text.split("\n") };
    const pruned = prunedFiles(files, given);
    const inOrder = files.filter((file) => pruned.includes(file));
    needSame(pruned, inOrder, "files that are left are in order");
    need(pruned.includes(files[2]!) || pruned.length < 3, "a file of which nothing is known");
    const twice = json
      ? { jsonPredicateHints: `{"op":"not","children":[{"op":"not","children":[${text}]}]}` }
      : given;
    const read = json && refused(() => typeof JSON.parse(text), SyntaxError) === "object";
    if (read) needSame(prunedFiles(files, twice), pruned, "a condition that is negated twice");
  },
};

export const targets: Record<string, Target> = {
  cursor,
  query: archiveQuery,
  headers,
  range,
  body,
  feed,
  hints,
};

import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ApiError, Client } from "../../../proxy/site/client/client.ts";
import { cursorIn } from "../../../proxy/site/client/rows.ts";
import type { HistoricalMarket } from "../../../schemas/records.ts";
import { directoryStorage } from "../../../snapshots/store/backends/directory.ts";
import { verifierText } from "../../../snapshots/trust/notes/note-keys.ts";
import { sameHash, segmentEnds } from "../../helpers/archive/odd-markets.ts";
import { type ArchiveProxy, startArchiveProxy } from "../../helpers/http/archive-proxy.ts";
import { market, publishRecords } from "../../helpers/publish/records.ts";
import { alter, alteredBytes } from "../../helpers/store/altered.ts";
import { type Draw, drawing } from "../../helpers/store/drawing.ts";
import { testKey } from "../../helpers/store/signing.ts";
import { testFolder } from "../../helpers/store/test-folder.ts";

const storage = directoryStorage(testFolder());
const signing = { key: testKey() };
const trust = { key: verifierText(signing.key) };
const seed = Number(process.env.SEED ?? Date.now() % 2 ** 31);
const runs = Number(process.env.ALTERED ?? 300);

const [present, absent] = sameHash;
const [perSegment, segments] = [120, 3];
const ends = [...segmentEnds().take(segments)];
const records = Array.from({ length: perSegment * segments }, (_, index): HistoricalMarket => {
  const last = index % perSegment === perSegment - 1;
  const id = last ? ends[Math.floor(index / perSegment)]! : index === 7 ? present : market(index).id;
  return { ...market(index), id };
});

/** An answer of the service, as it came. */
interface Recorded {
  type: string;
  headers: [name: string, value: string][];
  body: Buffer;
}
/** Headers that rows are checked by. */
const proven = ["x-count", "x-total-count", "x-snapshot-id", "x-cursor"];

/** The answers that an operation takes, by target, and what it then finds. */
interface Operation {
  name: string;
  run(client: Client): Promise<unknown>;
  answers: Map<string, Recorded>;
  finds: unknown;
}

let proxy: ArchiveProxy;
let operations: Operation[];
/** The same of the snapshot before. */
let earlier: Operation[];

beforeAll(async () => {
  const publish = async (markets: readonly HistoricalMarket[], day: number) => {
    const now = () => new Date(Date.UTC(2026, 1, day));
    return (await publishRecords(storage, markets, 700, { now, signing })).snapshotId;
  };
  await publish(records.slice(0, -40), 1);
  const before = await publish(records.slice(0, -20), 2);
  const newest = await publish(records, 3);
  proxy = await startArchiveProxy(storage);
  const record = async (asOf: string) => {
    const recorded: Operation[] = [];
    for (const [name, run] of Object.entries(operationsOn(asOf))) recorded.push(await recordedOf(name, run));
    return recorded;
  };
  [operations, earlier] = [await record(newest), await record(before)];
});
afterAll(() => proxy?.stop());

function operationsOn(asOf: string): Record<string, Operation["run"]> {
  const verified = { verified: true, trust };
  const texts = async (filters: object, client: Client) =>
    (await Array.fromAsync(client.rows({ ...filters, asOf }, verified))).map(({ text }) => text);
  return {
    async "a total with facets"(client) {
      const filters = { disputed: true, min_composite: 400, from: "2025-01-02", q: "will hap*" };
      const { total, facets } = await client.recompute({ filters, by: ["tier", "month"], asOf, trust });
      return { total, facets };
    },
    "a total of all": async (client) => (await client.recompute({ by: ["outcome"], asOf, trust })).facets,
    "some rows": (client) => texts({ disputed: true, category: "crypto" }, client),
    "all rows": (client) => texts({}, client),
    async "a page"(client) {
      const asked = { min_composite: 500, pageSize: 15, page: 2, asOf };
      const { timestamp: _, tier: __, ...page } = await client.page(asked, verified);
      return page;
    },
    "an absence beside the same hash": async (client) =>
      (await client.absent(absent, { asOf, trust })).markets,
    "an absence": async (client) =>
      (await client.absent("0".repeat(8).concat(absent.slice(8)), { asOf, trust })).markets,
  };
}

function clientWith(fetch: typeof globalThis.fetch): Client {
  const key = proxy.headers.authorization!.slice("Bearer ".length);
  // Nothing but answers is to be refused, however slow the machine is.
  return new Client({ url: new URL(proxy.address).origin, key, fetch, retries: 0, timeout: 3_600_000 });
}

async function recordedOf(name: string, run: Operation["run"]): Promise<Operation> {
  const answers: Operation["answers"] = new Map();
  const fetch: typeof globalThis.fetch = async (target, init) => {
    const answer = await globalThis.fetch(target, init);
    const body = Buffer.from(await answer.arrayBuffer());
    const headers = [...answer.headers].filter(([each]) => proven.includes(each));
    answers.set(String(target), { type: answer.headers.get("content-type")!, headers, body });
    return new Response(body, { status: answer.status, headers });
  };
  return { name, run, answers, finds: await run(clientWith(fetch)) };
}

/** Bytes as many as these, fewer or more. */
const alteredBody = (bytes: Buffer, choose: Draw): Buffer =>
  [
    () => alteredBytes(bytes, choose),
    () => bytes.subarray(0, choose(bytes.length)),
    () => Buffer.concat([bytes, Buffer.alloc(1 + choose(5000), choose(256))]),
  ][Math.max(0, choose(6) - 3)]!();

/** Alters one value of a JSON text, or writes it as one of another type. */
function alterJson(text: string, choose: Draw): string {
  const document = JSON.parse(text);
  if (choose(8)) alter(document, choose);
  const altered = JSON.stringify(document);
  const values = [...altered.matchAll(/(?<=[:[,])(?:"(?:[^"\\]|\\.)*"(?!:)|-?\d+|true|false|null)/g)];
  const { 0: value, index } = values[choose(values.length)]!;
  const other = ["null", "-1", "0.5", value.startsWith('"') ? "[]" : `"${value}"`][choose(4)]!;
  return choose(8) ? altered : altered.slice(0, index) + other + altered.slice(index + value.length);
}

/** Alters one line: swaps it, leaves it out, doubles it, or takes another one. */
function alterLines(lines: string[], choose: Draw): string[] {
  const [at, other] = [choose(lines.length), choose(lines.length)];
  const [line, foreign] = [lines[at]!, otherLines[choose(otherLines.length)]!];
  return [
    lines.with(at, lines[other]!).with(other, line),
    lines.toSpliced(at, 1),
    lines.toSpliced(other, 0, line),
    lines.with(at, foreign),
    lines.toSpliced(at, 0, foreign),
    lines.with(at, alteredBytes(Buffer.from(line), choose).toString("latin1")),
  ][choose(6)]!;
}

/** One of the headers that rows are checked by, changed. */
function alterHeader(headers: Recorded["headers"], choose: Draw): Recorded["headers"] {
  const at = choose(headers.length);
  const [name, value] = headers[at]!;
  const other = /^\d+$/.test(value)
    ? String(Number(value) + choose(5) - 2)
    : value.replace(/^(.{5})./, (_, head) => head + (value[5] === "a" ? "b" : "a"));
  return headers.with(at, [name, other]);
}

/** One answer, with one thing changed. */
function altered(
  target: string,
  answer: Recorded,
  { answers, other }: { answers: Operation["answers"]; other: Operation },
  choose: Draw,
): Recorded {
  const { type, body, headers } = answer;
  const { pathname } = new URL(target);
  const having = (changed: string | Buffer): Recorded => ({ ...answer, body: Buffer.from(changed) });
  // The same of an earlier snapshot, or any other one.
  if (choose(8) === 0) {
    const same = [...other.answers].filter(([each]) => new URL(each).pathname === pathname);
    return same[choose(same.length)]?.[1] ?? answer;
  }
  if (choose(8) === 0) return { ...[...answers.values()][choose(answers.size)]!, headers };
  const isLines = type.startsWith("application/x-ndjson");
  if (type.startsWith("application/octet-stream") || (isLines && choose(4) === 0))
    return having(alteredBody(body, choose));
  if (isLines) {
    if (choose(4) === 0) return { ...answer, headers: alterHeader(headers, choose) };
    const lines = alterLines(body.toString().split("\n").slice(0, -1), choose);
    const counted: Recorded["headers"] = headers.map(([name, value]) => [
      name,
      name === "x-count" ? `${lines.length}` : value,
    ]);
    return { ...having(`${lines.join("\n")}\n`), headers: choose(2) ? counted : headers };
  }
  if (!pathname.endsWith("/historical"))
    return having(choose(3) === 0 ? alteredBytes(body, choose) : alterJson(`${body}`, choose));
  // What a page says of the caller and of the time is not proved.
  const { timestamp, tier, markets, ...page } = JSON.parse(`${body}`);
  const texts: string[] = markets.map((each: object) => JSON.stringify(each));
  const lines = choose(2) ? alterLines(texts, choose) : texts;
  const counted = lines !== texts && choose(2) ? { ...page, count: lines.length } : page;
  const told = JSON.stringify({ ...counted, markets: [] });
  const envelope = lines === texts ? alterJson(told, choose) : told;
  const end = `"timestamp":"${timestamp}","tier":"${tier}"}`;
  return having(
    `${envelope.replace('"markets":[]', () => `"markets":[${lines.join()}]`).slice(0, -1)},${end}`,
  );
}

const otherLines = records.slice(0, 40).map((each) => JSON.stringify({ ...each, composite: 301 }));

test(`every one of ${runs} altered answers is refused (seed ${seed})`, { timeout: 36_000_000 }, async () => {
  const refused = new Map<string, number>();
  for (const { name, run, answers, finds } of operations) {
    const replay = async (target: unknown) => responseOf(answers.get(String(target)));
    expect([name, await run(clientWith(replay as typeof fetch))]).toEqual([name, finds]);
  }
  await fc.assert(
    fc.asyncProperty(fc.integer(), async (start) => {
      const choose = drawing(start);
      const index = choose(operations.length);
      const { name, run, answers, finds } = operations[index]!;
      const targets = [...answers.keys()];
      const target = targets[choose(targets.length)]!;
      const real = answers.get(target)!;
      const changed = altered(target, real, { answers, other: earlier[index]! }, choose);
      fc.pre(!same(changed, real));
      const fetch = async (asked: unknown) =>
        responseOf(String(asked) === target ? changed : answers.get(String(asked)));
      const outcome = await run(clientWith(fetch as typeof globalThis.fetch)).catch(
        (error: unknown) => error,
      );
      if (!(outcome instanceof ApiError)) {
        const right = isDeepStrictEqual(outcome, finds) ? "the right result" : `a wrong result or ${outcome}`;
        expect.fail(
          `${name} gave ${right} with ${target} altered: ${changed.body.toString("latin1").slice(0, 2000)}`,
        );
      }
      const kind =
        outcome.name === "VerificationError" ? (outcome as unknown as { what: string }).what : outcome.code;
      refused.set(kind, (refused.get(kind) ?? 0) + 1);
    }),
    { seed, numRuns: runs, endOnFailure: true },
  );
  if (process.env.ALTERED) console.log(Object.fromEntries([...refused].sort()));
  expect(refused.get("section")).toBeGreaterThan(runs / 50);
});

function responseOf(answer: Recorded | undefined): Response {
  if (answer) return new Response(answer.body, { headers: answer.headers });
  const problem = { code: "SECTION_NOT_FOUND", title: "No such part", detail: "No." };
  return new Response(JSON.stringify(problem), {
    status: 404,
    headers: { "content-type": "application/problem+json" },
  });
}

/** Whether two answers say the same, also in JSON with another order of members. */
function same(a: Recorded, b: Recorded): boolean {
  if (!isDeepStrictEqual(a.headers, b.headers)) return false;
  if (a.body.equals(b.body) || !b.type.startsWith("application/json")) return a.body.equals(b.body);
  try {
    const [one, other] = [a, b].map(({ body }) => JSON.parse(String(body), withoutCommit));
    return isDeepStrictEqual(one, other);
  } catch {
    return false;
  }
}

/** Which commit of its snapshot a cursor names is not proved, since several may have it. */
const withoutCommit = (name: string, value: unknown) =>
  name === "nextCursor" && typeof value === "string" ? { ...cursorIn(value), commit: 0 } : value;

import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import type { HistoricalMarket } from "../../schemas/records.ts";
import { rollback } from "../../snapshots/maintain/rollback.ts";
import type { PublishOptions } from "../../snapshots/publish/publish.ts";
import { proveMarket } from "../../snapshots/read/archive/market.ts";
import { Catalog } from "../../snapshots/read/catalog/catalog.ts";
import { openPublicLog, proveCommit } from "../../snapshots/read/catalog/public-log.ts";
import { proveScore } from "../../snapshots/read/scores.ts";
import { directoryStorage } from "../../snapshots/store/backends/directory.ts";
import { layout, sha256 } from "../../snapshots/store/layout.ts";
import { seal } from "../../snapshots/store/objects.ts";
import { readAnyLog } from "../../snapshots/trust/log/log-reader.ts";
import { newSigningKey, parseSigningKey, verifierText } from "../../snapshots/trust/notes/note-keys.ts";
import { plainFilter } from "../helpers/archive/plain-filter.ts";
import type { Query } from "../helpers/http/archive-proxy.ts";
import { publishFreely } from "../helpers/publish/publish-freely.ts";
import { inArchiveOrder, market, sourcesOf } from "../helpers/publish/records.ts";
import { example, specification, withWorkedExample, workedExample } from "./worked-example.ts";

// The example store, what readers must find in it, and the worked example of the specification. To make all of it
// anew, after a change of the format:
//
//     npm exec -- node --import tsx/esm test/conformance/example-store.ts
//
// Once a format is released, its folder stays as it is, and a later format gets one beside it.
//
// Pages are compressed as the zlib of the Node that runs this does it; `made.json` names that zlib.

const day = 86_400_000;
const pick = <T>(list: readonly T[], place: number): T => list[Math.floor(place) % list.length]!;
const start = Date.parse("2025-01-01T00:00:00.000Z");

/** Frequent, rare and odd ones: letter case, normal forms, what JSON escapes, and characters beyond 16 bits. */
const categories = ["Crypto", "crypto", "Politics", "Politics", "Politics", "STRASSE", "straße", "STRAẞE"];
const rareCategories = [
  "Σίσυφος",
  "σίσυφοσ",
  "\u212Aelvin",
  "kelvin",
  "\u00c5",
  "A\u030a",
  "\u2028",
  'say "a\\b"',
  "\ufb05",
];
const outcomes = ["Yes", "No", "Yes", "No", "Yes", "Draw"];
const rareOutcomes = ["🏆", "\ue000", "\u0007", "لا", "yes", "0"];

/** Ends of pages and of segments, by index. */
const pageEnds = [36, 140];
const segmentEnds = [70, 107];

/** An id that ends what is to end with this market, and nothing where nothing is to end. */
function idOf(index: number): string {
  for (let attempt = 0; ; attempt += 1) {
    const digits = sha256(`example ${index} ${attempt}`);
    const id = digits.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12}).*$/, "$1-$2-$3-$4-$5");
    const hash = crc32(id);
    const [page, segment] = [hash % 96 === 0, hash % 96 === 0 && Math.floor(hash / 96) % 160 === 0];
    if (segment === segmentEnds.includes(index) && page === (segment || pageEnds.includes(index))) return id;
  }
}

/** A market of the example. Every fifth one shares its time with the one before. */
function recordOf(index: number): HistoricalMarket {
  const plain = market(index);
  const [first, ...others] = plain.dimensions;
  const evidence = {
    type: "trade",
    label: "größer",
    pattern: "a<b",
    reference: { label: "x", url: "https://example.org/?a=1", kind: "tx" },
  };
  const raises: unknown[] = [1e21, 0.1, -0.5, null, { "": ["\u001f", "\u007f", "𐀀"] }];
  const computation = { baseline: 12.5, raises, lowers: [] };
  const detailed = { ...first!, evidence: [evidence], references: [{ a: 1 }], computation };
  const days = index - Number(index % 5 === 1);
  return {
    ...plain,
    id: idOf(index),
    question: `Will ${pick(rareCategories, index)} win on day ${index}?`,
    category: index % 9 === 4 ? pick(rareCategories, index / 9) : pick(categories, index),
    resolvedOutcome: index % 11 === 5 ? pick(rareOutcomes, index / 11) : pick(outcomes, index),
    resolvedAt: new Date(start + days * day + (index < 60 ? 0 : 999)).toISOString(),
    formulaVersion: index < 60 ? "bri-pm-v1" : "bri-pm-v2",
    dimensions: index % 10 === 0 ? [detailed, ...others] : plain.dimensions,
  };
}

const all = Array.from({ length: 150 }, (_, index) => recordOf(index));

/** The archives of the publish runs. The second is taken back. */
const published = [
  all.slice(0, 100),
  all
    .slice(0, 120)
    .map((one, index) => (index % 40 === 7 ? { ...one, composite: 1000, tier: "ADAMANTINE" as const } : one)),
  all.filter((_, index) => index % 50 !== 3),
] as const;

/** The key of the example. Everybody knows it, so it is good for nothing else. */
const signing = { key: parseSigningKey(newSigningKey("example.org/risk-scores", Buffer.alloc(32, 7))) };

const at = (hour: number) => () => new Date(Date.parse("2026-03-01T00:00:00.000Z") + hour * 3_600_000);

/** Publishes one archive, without the site. */
async function publishOne(
  chosen: Pick<PublishOptions, "storage" | "sources" | "now" | "resume">,
): Promise<void> {
  const temporaryDirectory = await mkdtemp(join(tmpdir(), "prs-example-"));
  const publishing = publishFreely({ ...chosen, temporaryDirectory, signing, site: undefined });
  await publishing.finally(() => rm(temporaryDirectory, { recursive: true }));
}

/** The queries of the example that is kept. One of a later format begins with a copy of its `queries.json`. */
export async function keptQueries(): Promise<Query[]> {
  const kept: { query: Query }[] = JSON.parse(await readFile(join(example, "queries.json"), "utf8"));
  return kept.map(({ query }) => query);
}

/** Writes `store/`, `key.pub`, `queries.json`, `proofs.json`, `score-proofs.json` and `made.json` into a folder. */
export async function makeExample(folder: string, queries: readonly Query[]): Promise<void> {
  const storage = directoryStorage(join(folder, "store"));
  await mkdir(join(folder, "store"), { recursive: true });
  const [first, second, third] = published;
  await publishOne({ storage, sources: async () => sourcesOf(first, 700), now: at(0) });
  await publishOne({ storage, sources: async () => sourcesOf(second, 700), now: at(1) });
  await rollback(storage, "1", at(2), { signing });
  await publishOne({ storage, sources: async () => sourcesOf(third, 650), now: at(3), resume: true });
  const [id, time] = ["0123456789abcdef", at(4)().toISOString()];
  const secretHash = sha256("no key at all");
  const key = { id, owner: "acme", plan: "aegis", secretHash, quota: 5, issuedAt: time };
  await storage.put(layout.key(id), seal(key));
  await storage.put(layout.keyRevocation(id), seal({ id, revokedAt: time }));

  const inOrder = inArchiveOrder(third);
  const expected = queries.map((query) => {
    const ids = plainFilter(inOrder, query).map((one) => one.id);
    return { query, total: ids.length, ids };
  });
  const catalog = new Catalog(storage, { cacheBytes: 2 ** 20 });
  await catalog.refresh();
  const { commit } = catalog.requireCurrent();
  const proofs = [];
  const publicLog = openPublicLog(storage, catalog.log, readAnyLog(storage));
  const checkpoint = await publicLog.checkpoint();
  const prove = () => proveCommit(publicLog, commit, checkpoint);
  for (const { id } of [third[0]!, third[77]!, third.at(-1)!])
    proofs.push(await proveMarket(catalog, id, commit, prove));
  const write = (name: string, values: readonly unknown[]) =>
    writeFile(join(folder, name), `[\n${values.map((value) => JSON.stringify(value)).join(",\n")}\n]\n`);
  await write("queries.json", expected);
  await write("proofs.json", proofs);
  await write("score-proofs.json", [await proveScore(catalog, "constructor", commit, prove)]);
  await writeFile(join(folder, "key.pub"), `${verifierText(signing.key)}\n`);
  await write("made.json", [{ zlib: process.versions.zlib }]);
}

if (process.argv[1] === import.meta.filename) {
  const queries = await keptQueries();
  await rm(example, { recursive: true, force: true });
  await makeExample(example, queries);
  await writeFile(
    specification,
    withWorkedExample(await readFile(specification, "utf8"), await workedExample()),
  );
}

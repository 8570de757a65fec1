import { Client } from "../../../proxy/site/client/client.ts";
import type { MarketIndex } from "../../../schemas/envelopes.ts";
import { facetNames } from "../../../schemas/filters.ts";
import { ask, jsonOf, type Target } from "../load/client.ts";
import { someMarkets } from "../load/filters.ts";
import { atMost, line, type Measurement } from "../run/measurement.ts";
import { startProxy } from "../run/proxy.ts";
import type { Bench } from "../run/run.ts";

type Asked = NonNullable<Parameters<Client["recompute"]>[0]>;

const rounds = 7;

/** Row 16: totals that the client recomputes, what it fetches for them and how long it takes without the network. */
export async function measureRecompute(bench: Bench): Promise<Measurement[]> {
  const ours = await startProxy(bench);
  const { markets } = bench.data;
  const { category, resolvedOutcome, question } = (await someMarkets(ours))[0]!;
  const four = { category, disputed: false, min_composite: 500, min_oracle: 30 };
  const largest = { outcome: resolvedOutcome, min_composite: 500, min_oracle: 30, min_design: 30 };
  const words = question.match(/[\p{L}\p{N}]+/gu)!.slice(0, 2);
  const kinds: [work: string, asked: Asked, limit?: number][] = [
    ["one condition", { filters: { disputed: true } }],
    ["two conditions", { filters: { disputed: true, min_composite: 500 } }],
    ["four conditions", { filters: four }, 4],
    ["four conditions on the largest columns", { filters: largest }, 4],
    ["two words", { filters: { q: words.join(" ") } }],
    ...facetNames.map((name): [string, Asked] => [`facet ${name}`, { by: [name] }]),
  ];
  const note = "the first time; with the list of segments and their headers";
  const measured: Measurement[] = [];
  for (const [work, asked, limit] of kinds) {
    const { bytes } = await clientOf(ours, fetch).recompute(asked);
    const goal = limit !== undefined && atMost(limit);
    const told = `recomputing a total, ${work}: fetched`;
    measured.push(line(16, told, "bytes a market", [bytes / markets], { ...goal, note }));
  }
  const whole = (await bytesOfAll(ours)) / markets;
  const { empty, full } = await timesOf(ours, { filters: four });
  const cached = (cache: string, times: number[], limit: number) =>
    line(16, `recomputing a total of four conditions from ${cache} cache: p50`, "ms", times, {
      ...atMost(limit),
      note: "every byte checked; answers come from memory, without network and service",
    });
  return [
    ...measured,
    line(16, "the whole index, with words and ids", "bytes a market", [whole], atMost(32)),
    cached("an empty", empty, 1000),
    cached("a full", full, 10),
  ];
}

function clientOf({ port, headers }: Target, fetch: typeof globalThis.fetch): Client {
  return new Client({ url: `http://127.0.0.1:${port}`, key: headers["x-api-key"]!, fetch });
}

/** How long a total takes of which the answers are at hand. */
async function timesOf(ours: Target, asked: Asked): Promise<Record<"empty" | "full", number[]>> {
  const answers = new Map<string, ArrayBuffer>();
  const fetchOnce: typeof fetch = async (target, init) => {
    const known = answers.get(String(target)) ?? (await (await fetch(target, init)).arrayBuffer());
    answers.set(String(target), known);
    return new Response(known);
  };
  const times: Record<"empty" | "full", number[]> = { empty: [], full: [] };
  for (let round = 0; round <= rounds; round += 1) {
    const client = clientOf(ours, fetchOnce);
    for (const [place, of] of [times.empty, times.full].entries()) {
      const start = performance.now();
      // Another filter on the same columns, so that nothing but columns is at hand.
      await client.recompute({ ...asked, filters: { ...asked.filters, min_composite: 500 + place } });
      // The first compiles code, and fills the answers.
      if (round > 0) of.push(performance.now() - start);
    }
  }
  return times;
}

/** The bytes of everything that the index consists of. */
async function bytesOfAll(ours: Target): Promise<number> {
  const listed = await ask(ours, "/api/v1/markets/index");
  const index: MarketIndex = jsonOf(listed);
  let bytes = JSON.stringify(index).length;
  for (const { header, ids } of index.segments) {
    const { sections, words } = jsonOf(await ask(ours, `/api/v1/markets/index/${header.hash}`));
    const sizes = Object.values(sections as Record<string, [number, string]>).map(([size]) => size);
    bytes += header.bytes + ids.bytes + words.bytes + sizes.reduce((sum, size) => sum + size, 0);
  }
  return bytes;
}

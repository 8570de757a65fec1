import { Client } from "../../../proxy/site/client/client.ts";
import type { MarketIndex } from "../../../schemas/envelopes.ts";
import { facetNames } from "../../../schemas/filters.ts";
import { someMarkets } from "../filters.ts";
import type { Bench } from "../run.ts";
import { askJson } from "../servers.ts";

type Asked = NonNullable<Parameters<Client["recompute"]>[0]>;

/** Totals that the client recomputes, what it fetches for them and how long it takes without the network. */
export async function recompute({ data, found, startOurs }: Bench): Promise<void> {
  const ours = await startOurs();
  const clientBy = (fetch: typeof globalThis.fetch) =>
    new Client({ url: `http://127.0.0.1:${ours.port}`, key: ours.headers["x-api-key"], fetch });
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
  const size = (work: string, bytes: number, limit?: number) =>
    found({
      work,
      unit: "bytes a market",
      ours: [bytes / data.markets],
      ...(limit && { goal: `<= ${limit}` }),
    });
  for (const [work, asked, limit] of kinds) {
    const { bytes } = await clientBy(fetch).recompute(asked);
    await size(`recomputing a total, ${work}: fetched the first time`, bytes, limit);
  }
  const index: MarketIndex = await askJson(ours, "/api/v1/markets/index");
  let whole = JSON.stringify(index).length;
  for (const { header, ids } of index.segments) {
    const { sections, words } = await askJson(ours, `/api/v1/markets/index/${header.hash}`);
    const sizes = Object.values(sections as Record<string, [number, string]>).map(([bytes]) => bytes);
    whole += header.bytes + ids.bytes + words.bytes + sizes.reduce((sum, bytes) => sum + bytes, 0);
  }
  await size("the whole index, with words and ids", whole, 32);

  // How long a total takes of which the answers are at hand: every byte is checked.
  const answers = new Map<string, ArrayBuffer>();
  const fetchOnce: typeof fetch = async (target, init) => {
    const known = answers.get(String(target)) ?? (await (await fetch(target, init)).arrayBuffer());
    answers.set(String(target), known);
    return new Response(known);
  };
  const timed = async (client: Client, min_composite: number) => {
    const start = performance.now();
    await client.recompute({ filters: { ...four, min_composite } });
    return performance.now() - start;
  };
  const [empty, full]: [number[], number[]] = [[], []];
  for (let round = 0; round <= 7; round += 1) {
    const client = clientBy(fetchOnce);
    empty.push(await timed(client, 500));
    // Another filter on the same columns, so that nothing but columns is at hand.
    full.push(await timed(client, 501));
  }
  const work = "recomputing a total of four conditions from";
  // The first compiles code, and fills the answers.
  await found({ work: `${work} an empty cache: p50`, unit: "ms", ours: empty.slice(1), goal: "<= 1000" });
  await found({ work: `${work} a full cache: p50`, unit: "ms", ours: full.slice(1), goal: "<= 10" });
}

// What a user of the client does with it, in whatever runs it: `node client-exercise.mjs BASE KEY` or a page of the
// service.

/** Does all that runs otherwise in another engine, and returns what came as one JSON value. */
export async function exercise({ Client, ApiError, archiveRoot, linesFromEnd }, url, key) {
  const client = new Client({ url, key });
  const [{ slug }] = (await client.scores()).scores;
  const codeOf = (promise) =>
    promise.then(
      () => "none",
      (error) => (error instanceof ApiError ? `${error.code} ${error.status}` : String(error)),
    );
  const walked = [];
  for await (const page of client.pages({ pageSize: 7 })) walked.push(...page.markets.map(({ id }) => id));
  const texts = [];
  for await (const { text, market } of client.rows()) texts.push([market.id, text]);
  const copy = new Blob(texts.map(([, text]) => `${text}\n`));
  const asked = { filters: { disputed: true, q: "will hap*" }, by: ["tier", "month", "composite"] };
  const { total, facets, vouched } = await client.recompute(asked);
  const served = await client.facets(asked.by, asked.filters);
  const trust = { entry: vouched.entry };
  const again = await client.recompute({ ...asked, trust });
  const verified = [];
  for await (const { text, market } of client.rows(asked.filters, { verified: true, trust }))
    verified.push([market.id, text]);
  const proved = verified.every(([id, text]) => texts.some(([other, same]) => other === id && same === text));
  const { id } = (await client.page()).markets[0];
  const nobody = id.replace(/^./, (digit) => (digit === "0" ? "1" : "0"));
  return {
    recomputed: [total, JSON.stringify(facets) === JSON.stringify(served.facets)],
    again: [again.total, again.requests, again.vouched.by.join()],
    proved: [verified.length, proved],
    absent: [
      (await client.absent(nobody, { trust })).markets,
      await codeOf(client.absent(id, { trust })),
      await codeOf(client.recompute({ trust: { entry: "0".repeat(64) } })),
    ],
    record: (await client.score(slug)).slug === slug,
    batch: (await client.batch([slug, "nobody"])).notFound,
    markets: (await client.status()).counts.markets,
    walked: walked.join() === texts.map(([id]) => id).join(),
    root: await archiveRoot(linesFromEnd(copy)),
    codes: [
      await codeOf(client.page({ min_composite: 999, max_composite: 998 })),
      await codeOf(new Client({ url: "http://127.0.0.1:9", retries: 0 }).status()),
      await codeOf(client.status({ signal: AbortSignal.abort(new Error("as asked")) })),
    ],
  };
}

const { argv } = globalThis.process ?? { argv: [] };
if (argv[1]?.endsWith("client-exercise.mjs")) {
  const [, , url, key] = argv;
  const { mkdtempSync, rmSync, writeFileSync } = await import("node:fs");
  const { tmpdir } = await import("node:os");
  const folder = mkdtempSync(`${tmpdir()}/prs-client-`);
  globalThis.process.on("exit", () => rmSync(folder, { recursive: true }));
  for (const name of ["client.mjs", "recompute.mjs"])
    writeFileSync(`${folder}/${name}`, await (await fetch(`${url}/${name}`)).text());
  const client = await import(`file://${folder}/client.mjs`);
  console.log(JSON.stringify(await exercise(client, url, key)));
}

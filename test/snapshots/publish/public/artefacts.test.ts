import { join } from "node:path";
import { expect, test } from "vitest";
import { publishedSite } from "../../../../proxy/site/files.ts";
import { type ForgeTier, forgeScaleNumber } from "../../../../schemas/versions.ts";
import { artefactFiles, artefactsOf } from "../../../../snapshots/artefacts/artefacts.ts";
import { collectGarbage } from "../../../../snapshots/maintain/gc.ts";
import { rollback } from "../../../../snapshots/maintain/rollback.ts";
import { apiPlaceAt, siteAddressAt } from "../../../../snapshots/publish/public/site.ts";
import type { PublishOptions } from "../../../../snapshots/publish/publish.ts";
import { directoryStorage } from "../../../../snapshots/store/backends/directory.ts";
import { headersOf, layout, sha256 } from "../../../../snapshots/store/layout.ts";
import type { Storage } from "../../../../snapshots/store/storage.ts";
import { verify } from "../../../../snapshots/verify/verify.ts";
import { market, publishRecords, score, scoreRowsOf, sourcesOf } from "../../../helpers/publish/records.ts";
import { changedStorage, countingStorage, listed, memoryStorage } from "../../../helpers/store/storages.ts";
import { testFolder } from "../../../helpers/store/test-folder.ts";

const folder = testFolder();
const siteUrl = "https://scores.example.org/";
const named = { names: { site: siteUrl } };
const both = { aave: "CAST", "curve.fi": "FORGED" } as const;
const markets = [market(0)];

/** Publishes protocols with these tiers on a day of March. */
const publishTiers = (
  storage: Storage,
  tiers: Record<string, ForgeTier>,
  day: number,
  choices: Partial<PublishOptions> = {},
) =>
  publishRecords(storage, markets, 0, {
    now: () => new Date(Date.UTC(2026, 2, day)),
    sources: async () => ({ ...sourcesOf(markets, 0), scores: async () => scoreRowsOf(recordsOf(tiers)) }),
    ...choices,
  });

const recordsOf = (tiers: Record<string, ForgeTier>) =>
  Object.entries(tiers).map(([slug, forgeScale]) => {
    return { ...score(slug, 500), forgeScale, forgeScaleNum: forgeScaleNumber(forgeScale) };
  });

const faultsOf = async (storage: Storage) =>
  (await verify(storage, () => {}, { site: publishedSite })).faults.map(({ key }) => key).sort();
const textOf = async (storage: Storage, key: string) => String(await storage.get(key));
const moves = async (storage: Storage) =>
  [...(await textOf(storage, layout.feed)).matchAll(/<title>(\S+ moved .*)<\/title>/g)].map(
    ([, title]) => title,
  );
/** Keys of cards, which tell of which records they are. */
const cardsIn = (keys: readonly string[]) => keys.filter((key) => key.startsWith(layout.card.prefix)).sort();
const cardsOf = async (storage: Storage) =>
  cardsIn((await listed(storage, layout.card.prefix)).map(({ key }) => key));
const artefacts = (slugs: readonly string[]) => [...artefactFiles, ...slugs.flatMap(artefactsOf)].sort();
const isArtefact = (key: string) =>
  /\/(badges|protocols|embed)\//.test(key) || artefactFiles.some((file) => file === key);

test("writes artefacts once an address is named, and later only what changed, also without naming it", async () => {
  const storage = countingStorage(memoryStorage(new Map()));
  const written = (from = 0) => storage.written().slice(from).filter(isArtefact).sort();
  await publishTiers(storage, both, 1);
  expect(written()).toEqual([]);
  await publishTiers(storage, both, 1, named);
  expect(written()).toEqual(artefacts(["aave", "curve.fi"]));
  expect(await textOf(storage, layout.siteFile("api.json"))).toBe(`{"api":null,"site":"${siteUrl}"}`);
  expect(await faultsOf(storage)).toEqual([]);

  const before = storage.written().length;
  await publishTiers(storage, both, 2);
  expect(written(before)).toEqual([]);
  await publishTiers(storage, { aave: "RAW", "curve.fi": "FORGED" }, 3);
  const files = [layout.dataset, layout.feed, layout.protocolList, layout.listEmbed, layout.tiers];
  // Its neighbour's page shows its tier too.
  const pages = [...artefactsOf("aave"), layout.protocolPage("curve.fi")];
  expect(written(before)).toEqual([...files, ...pages].sort());
  // One card for each record, which is drawn once and named by the page.
  const cards = cardsIn(storage.written());
  expect(cards.map((key) => key.replace(/-[0-9a-f]{16}\.png/, ""))).toEqual(
    ["aave", "aave", "curve.fi"].map((slug) => `${layout.card.prefix}${slug}`),
  );
  const page = await textOf(storage, layout.protocolPage("curve.fi"));
  expect(page).toContain(`"og:image" content="${siteUrl}${cards[2]!.slice("public/".length)}"`);
  await storage.put(cards[2]!, Buffer.from("x"));
  expect(await faultsOf(storage)).toEqual([cards[2]]);
  const again = { faulty: new Set([cards[2]!]) };
  await publishTiers(storage, { aave: "RAW", "curve.fi": "FORGED" }, 3, again);
  expect(await moves(storage)).toEqual(["aave moved from CAST to RAW"]);
  expect(await faultsOf(storage)).toEqual([]);
});

test("the service, the terms of the data and where keys come from are remembered until another or none is named", async () => {
  const storage = memoryStorage(new Map());
  const remembered = async () => {
    const { license, citeAs, version } = JSON.parse(await textOf(storage, layout.dataset));
    const { api, contact } = JSON.parse(await textOf(storage, layout.siteFile("api.json")));
    const asked = api === null ? "'self'" : `'self' ${new URL(api).origin}`;
    expect(await textOf(storage, layout.siteIndex)).toContain(`; connect-src ${asked}; `);
    expect(await faultsOf(storage)).toEqual([]);
    return { api, contact, license, citeAs, version };
  };
  const told = {
    api: "https://api.example.org/api/v1",
    license: "https://spdx.org/licenses/CC0-1.0",
    citeAs: "Me",
    contact: "https://example.org/keys",
  };
  await publishTiers(storage, { aave: "CAST" }, 1, { names: { site: siteUrl, ...told } });
  expect(await remembered()).toEqual({ ...told, version: "1.1.0" });
  await publishTiers(storage, { aave: "RAW" }, 2);
  expect(await remembered()).toEqual({ ...told, version: "1.2.0" });
  // The feed tells of a rollback, which shows the tiers it goes back to.
  await rollback(storage, "1", () => new Date(Date.UTC(2026, 2, 3)), { site: publishedSite });
  expect(await remembered()).toEqual({ ...told, version: "1.3.0" });
  expect(await moves(storage)).toEqual(["aave moved from RAW to CAST", "aave moved from CAST to RAW"]);
  expect(await textOf(storage, layout.badge("aave"))).toContain("500 CAST");
  await publishTiers(storage, { aave: "RAW" }, 4, { resume: true, names: { citeAs: "You" } });
  expect(await remembered()).toEqual({ ...told, citeAs: "You", version: "1.4.0" });
  const none = { license: null, citeAs: null, api: null, contact: null };
  await publishTiers(storage, { aave: "RAW" }, 5, { names: none });
  expect(await remembered()).toEqual({ api: null, version: "1.4.0" });
});

// That the next run puts right what was lost or altered is in test/snapshots/publish/requests.test.ts.
test("what belongs to no protocol is found, and what a killed run left is told by the next", async () => {
  const storage = memoryStorage(new Map());
  await publishTiers(storage, both, 1, named);
  const stray = "public/badges/never-there.svg";
  await storage.put(stray, (await storage.get(layout.badge("curve.fi")))!);
  await storage.put(layout.tiers, Buffer.from("{}"));
  expect(await faultsOf(storage)).toEqual(expect.arrayContaining([layout.tiers, stray]));
  await publishTiers(storage, both, 3);
  expect(await faultsOf(storage)).toEqual([stray]);

  // Killed after its commit, before the artefacts: the next run tells of the change.
  const killed = changedStorage(storage, {
    async put(key, body) {
      if (key === layout.tiers) throw new Error("killed");
      return storage.put(key, body);
    },
  });
  await expect(publishTiers(killed, { ...both, aave: "RAW" }, 4)).rejects.toThrow("killed");
  await publishTiers(storage, { ...both, aave: "RAW" }, 5);
  expect(await moves(storage)).toEqual(["aave moved from CAST to RAW"]);
});

test("artefacts of a removed protocol stay until the collection takes them, and those of others stay", async () => {
  const storage = memoryStorage(new Map());
  await publishTiers(storage, both, 1, named);
  await publishTiers(storage, { aave: "CAST" }, 2);
  expect(await faultsOf(storage)).toEqual([]);
  await storage.put(layout.badge("curve.fi"), Buffer.from("<svg/>"));
  expect(await faultsOf(storage)).toEqual([layout.badge("curve.fi")]);
  const older = layout.siteFile("older.js");
  await storage.put(older, Buffer.from("1"));
  await publishTiers(storage, { aave: "CAST" }, 3);
  expect(await faultsOf(storage)).toContain(older);
  const [kept, gone] = await cardsOf(storage);
  const retention = { keepHours: 48, keepCommits: 1, now: new Date(Date.UTC(2026, 2, 9)) };
  const { deleted } = await collectGarbage(storage, { site: publishedSite, ...retention, dryRun: false });
  expect(deleted.keys).toEqual(expect.arrayContaining([older, layout.stableScore("curve.fi")]));
  expect(deleted.keys.filter(isArtefact).sort()).toEqual(artefactsOf("curve.fi").sort());
  expect([cardsIn(deleted.keys), await cardsOf(storage)]).toEqual([[gone], [kept]]);
  expect(await faultsOf(storage)).toEqual([]);
});

test("null ends them: nothing keeps them right any more, so verify names what to delete", async () => {
  const storage = memoryStorage(new Map());
  await publishTiers(storage, { aave: "CAST" }, 1, named);
  await publishTiers(storage, { aave: "CAST" }, 2, { names: { site: null } });
  expect(await textOf(storage, layout.siteFile("api.json"))).toBe('{"api":null}');
  const all = [...artefacts(["aave"]), ...(await cardsOf(storage))].sort();
  expect(await faultsOf(storage)).toEqual(all);
  for (const key of all) await storage.delete(key);
  await publishTiers(storage, { aave: "RAW" }, 3);
  expect(await faultsOf(storage)).toEqual([]);
});

test("slugs with the names of files do no harm in a directory", async () => {
  const storage = directoryStorage(join(folder, "store"));
  const others = { "index.html": "CAST", "a.svg": "RAW", "0": "RAW" } as const;
  await publishTiers(storage, { ...others, constructor: "FORGED" as const }, 1, named);
  await publishTiers(storage, { ...others, constructor: "RAW" as const }, 2);
  expect(await moves(storage)).toEqual(["constructor moved from FORGED to RAW"]);
  expect(await faultsOf(storage)).toEqual([]);
});

test("the headers tell browsers and crawlers what each file is", () => {
  const html = "text/html; charset=utf-8";
  const profile = 'profile="https://www.rfc-editor.org/info/rfc9727"';
  const data = ["application/json", "application/atom+xml", "application/xml", "text/plain; charset=utf-8"];
  const described = ["application/ld+json", `application/linkset+json; ${profile}`, "image/svg+xml"];
  const cacheControl = "public, max-age=60, stale-while-revalidate=600";
  expect([...artefactFiles, ...artefactsOf("aave")].map(headersOf)).toEqual(
    [html, html, ...data, ...described, html, html].map((contentType) => ({ contentType, cacheControl })),
  );
  const own = { contentType: "application/json", cacheControl: "private, no-store" };
  expect(headersOf(layout.privateObject(sha256("1")))).toEqual(own);
});

test("takes an address of host and path, with or without a slash", () => {
  const api = apiPlaceAt("https://api.example.org:8443/");
  expect([api, apiPlaceAt(api)]).toEqual(Array(2).fill("https://api.example.org:8443/api/v1"));
  expect(siteAddressAt("https://cdn.example.org")).toBe("https://cdn.example.org/");
  expect(siteAddressAt("https://cdn.example.org/public//")).toBe("https://cdn.example.org/public/");
  for (const wrong of ["cdn.example.org", "ftp://a.example", "https://u@a.example", "https://a.example/?x"])
    for (const take of [siteAddressAt, apiPlaceAt]) expect(() => take(wrong)).toThrow();
});

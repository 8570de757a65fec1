import { inListOrder, listEntryOf, type ProtocolScore, type ScoreListEntry } from "../../schemas/records.ts";
import type { Tiers } from "../../schemas/snapshot.ts";
import { layout } from "../store/layout.ts";
import type { Addresses } from "./addresses.ts";
import { renderBadge } from "./badge.ts";
import { type DatasetFacts, renderDataset } from "./dataset.ts";
import { renderApiCatalog, renderLlms, renderSitemap } from "./documents.ts";
import { renderListEmbed, renderProtocolEmbed } from "./embed.ts";
import { renderFeed } from "./feed.ts";
import { placeOf, renderProtocolList, renderProtocolPage } from "./protocol-page.ts";

/** The artefacts that are about all protocols. */
export const artefactFiles = [
  layout.protocolList,
  layout.listEmbed,
  layout.tiers,
  layout.feed,
  layout.sitemap,
  layout.llms,
  layout.dataset,
  layout.apiCatalog,
];

/** The keys of a protocol's own artefacts. */
export const artefactsOf = (slug: string) => [
  layout.badge(slug),
  layout.protocolPage(slug),
  layout.embed(slug),
];

/** The slug of the protocol that an artefact is about, by its key; undefined for other keys. */
export function slugOfArtefact(key: string): string | undefined {
  const [slug] = /(?!_)[^/]+(?=\.svg$|\/index\.html$)/.exec(key) ?? [];
  return slug !== undefined && artefactsOf(slug).includes(key) ? slug : undefined;
}

/** The artefacts of one protocol, by key. `list` has all scores, by BRI from the highest down. */
export function renderProtocol(
  addresses: Addresses,
  record: ProtocolScore,
  list: readonly ScoreListEntry[],
): [key: string, bytes: Buffer][] {
  const place = placeOf(record.slug, list);
  return [
    [layout.badge(record.slug), Buffer.from(renderBadge(record).text)],
    [layout.protocolPage(record.slug), Buffer.from(renderProtocolPage(addresses, record, place).text)],
    [layout.embed(record.slug), Buffer.from(renderProtocolEmbed(addresses, record, place).text)],
  ];
}

/**
 * Everything that lets the public scores be found and shown, by key in the store. Made of public data, by slug, and of
 * the numbers, sizes and hashes of an export's files.
 */
export function renderArtefacts(
  addresses: Addresses,
  records: readonly ProtocolScore[],
  tiers: Tiers,
  facts: Omit<DatasetFacts, "since">,
): Map<string, Buffer> {
  const list = inListOrder(records.map(listEntryOf));
  return new Map([
    ...records.flatMap((record) => renderProtocol(addresses, record, list)),
    [layout.listEmbed, Buffer.from(renderListEmbed(addresses, list).text)],
    [layout.protocolList, Buffer.from(renderProtocolList(addresses, list).text)],
    [layout.tiers, Buffer.from(JSON.stringify(tiers))],
    [layout.feed, Buffer.from(renderFeed(addresses, tiers).text)],
    [layout.sitemap, Buffer.from(renderSitemap(addresses, records).text)],
    [layout.llms, Buffer.from(renderLlms(addresses))],
    [layout.dataset, jsonFile(renderDataset(addresses, { ...facts, since: tiers.since }))],
    [layout.apiCatalog, jsonFile(renderApiCatalog(addresses))],
  ]);
}

const jsonFile = (value: unknown) => Buffer.from(`${JSON.stringify(value, null, 1)}\n`);

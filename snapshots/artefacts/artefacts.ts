import { inListOrder, listEntryOf, type ProtocolScore, type ScoreListEntry } from "../../schemas/records.ts";
import type { Tiers } from "../../schemas/store/snapshot.ts";
import { layout } from "../store/layout.ts";
import type { Addresses } from "./addresses.ts";
import { renderBadge } from "./badge.ts";
import { cardKey } from "./card.ts";
import { type DatasetFacts, renderDataset } from "./dataset.ts";
import { renderFeed } from "./feed.ts";
import { renderApiCatalog, renderLlms, renderSitemap } from "./page.ts";
import {
  placeOf,
  renderListEmbed,
  renderProtocolEmbed,
  renderProtocolList,
  renderProtocolPage,
} from "./protocol-page.ts";

/** Keys of the artefacts that are about all protocols. */
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

export const artefactsOf = (slug: string) => [
  layout.badge(slug),
  layout.protocolPage(slug),
  layout.embed(slug),
];

/** Undefined for keys that are not artefacts of one protocol. */
export function slugOfArtefact(key: string): string | undefined {
  if (key.startsWith(layout.card.prefix)) return /[^/]+(?=-[0-9a-f]{16}\.png$)/.exec(key)?.[0];
  const [slug] = /(?!_)[^/]+(?=\.svg$|\/index\.html$)/.exec(key) ?? [];
  return slug !== undefined && artefactsOf(slug).includes(key) ? slug : undefined;
}

/** `hash` names the object that holds the record. */
export interface StoredScore {
  record: ProtocolScore;
  hash: string;
}

/** By key, without the card. `list` has all scores, by BRI from the highest down. */
export function renderProtocol(
  addresses: Addresses,
  { record, hash }: StoredScore,
  list: readonly ScoreListEntry[],
): [key: string, bytes: Buffer][] {
  const place = placeOf(record.slug, list);
  return [
    [layout.badge(record.slug), Buffer.from(renderBadge(record).text)],
    [
      layout.protocolPage(record.slug),
      Buffer.from(renderProtocolPage(addresses, record, place, cardKey(record.slug, hash)).text),
    ],
    [layout.embed(record.slug), Buffer.from(renderProtocolEmbed(addresses, record, place).text)],
  ];
}

/**
 * Everything that lets the public scores be found and shown, by key, without the cards. It is made of public data and,
 * of an export, only the numbers, sizes and hashes of its files.
 */
export function renderArtefacts(
  addresses: Addresses,
  scores: readonly StoredScore[],
  tiers: Tiers,
  facts: Omit<DatasetFacts, "since">,
): Map<string, Buffer> {
  const records = scores.map(({ record }) => record);
  const list = inListOrder(records.map(listEntryOf));
  return new Map([
    ...scores.flatMap((score) => renderProtocol(addresses, score, list)),
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

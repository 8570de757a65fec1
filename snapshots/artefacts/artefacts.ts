import type { ProtocolScore } from "../../schemas/records.ts";
import type { Tiers } from "../../schemas/snapshot.ts";
import { layout } from "../store/layout.ts";
import { renderBadge } from "./badge.ts";
import { type DatasetFacts, renderDataset } from "./dataset.ts";
import { renderApiCatalog, renderLlms, renderSitemap } from "./documents.ts";
import { renderFeed } from "./feed.ts";
import type { Places } from "./places.ts";
import { renderProtocolPage } from "./protocol-page.ts";

/** The artefacts that are about all protocols. */
export const artefactFiles = [
  layout.tiers,
  layout.feed,
  layout.sitemap,
  layout.llms,
  layout.dataset,
  layout.apiCatalog,
];

/** The keys of a protocol's own artefacts. */
export const artefactsOf = (slug: string) => [layout.badge(slug), layout.protocolPage(slug)];

/** The slug of the protocol that an artefact is about, by its key; undefined for other keys. */
export function slugOfArtefact(key: string): string | undefined {
  const [slug] = /[^/]+(?=\.svg$|\/index\.html$)/.exec(key) ?? [];
  return slug !== undefined && artefactsOf(slug).includes(key) ? slug : undefined;
}

/** The artefacts of one protocol, by key. */
export function renderProtocol(places: Places, record: ProtocolScore): [key: string, bytes: Buffer][] {
  return [
    [layout.badge(record.slug), Buffer.from(renderBadge(record).text)],
    [layout.protocolPage(record.slug), Buffer.from(renderProtocolPage(places, record).text)],
  ];
}

/**
 * Everything that lets the public scores be found and shown, by key in the store. Made of public data, by slug, and of
 * the numbers, sizes and hashes of an export's files.
 */
export function renderArtefacts(
  places: Places,
  records: readonly ProtocolScore[],
  tiers: Tiers,
  facts: Omit<DatasetFacts, "since">,
): Map<string, Buffer> {
  return new Map([
    ...records.flatMap((record) => renderProtocol(places, record)),
    [layout.tiers, Buffer.from(JSON.stringify(tiers))],
    [layout.feed, Buffer.from(renderFeed(places, tiers).text)],
    [layout.sitemap, Buffer.from(renderSitemap(places, records).text)],
    [layout.llms, Buffer.from(renderLlms(places))],
    [layout.dataset, jsonFile(renderDataset(places, { ...facts, since: tiers.since }))],
    [layout.apiCatalog, jsonFile(renderApiCatalog(places))],
  ]);
}

const jsonFile = (value: unknown) => Buffer.from(`${JSON.stringify(value, null, 1)}\n`);

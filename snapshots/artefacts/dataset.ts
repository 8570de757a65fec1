import { market } from "../../schemas/market.ts";
import { meanings } from "../../schemas/meanings.ts";
import { described, protocolDimensionKeys, scoreHead } from "../../schemas/protocol.ts";
import type { ProtocolScore } from "../../schemas/records.ts";
import { sourceName } from "../../schemas/shapes.ts";
import type { ExportRecord, ObjectRef } from "../../schemas/store/stored-objects.ts";
import { exportFileName } from "../export/export-records.ts";
import { layout } from "../store/layout.ts";

export const siteName = "Protocol Risk Scores";
export const siteDescription =
  "Risk scores of DeFi protocols in twelve dimensions, and an archive of resolved prediction markets.";

/** What the public data says of itself; null where the operator says nothing. */
export interface Addresses {
  /** The address of the public tree. Ends with a slash. */
  site: string;
  /** https://HOST/api/v1; null where the site has no service. */
  api: string | null;
  /** An address. */
  license: string | null;
  citeAs: string | null;
}

/** Relative to the root of the public tree. Not every CDN shows a folder's index.html under the folder's own name. */
export const pathOf = (key: string) => key.slice(layout.publicTree.length);

/** `key` is of an object in the public tree. */
export const addressOf = ({ site }: Addresses, key: string) => `${site}${pathOf(key)}`;

export const protocolListPath = pathOf(layout.protocolList);

/** For paths beside the API, such as `openapi.json`. */
export function serviceAddress(api: string, path: string): string {
  return `${api.replace(/api\/v1$/, "")}${path}`;
}

const datasetDescription =
  `Risk scores of DeFi protocols, the current one of each. BRI: ${meanings.bri.meaning} Tier: ` +
  `${meanings.tier.meaning}`;

const creatorOf = (addresses: Addresses) => ({
  "@type": "Organization",
  name: siteName,
  url: addressOf(addresses, layout.siteIndex),
});

export interface DatasetFacts {
  /** The score list under its public name. */
  list: ObjectRef;
  commit: number;
  exported?: ExportRecord | undefined;
  since: string;
  newestUpdatedAt: string;
}

/**
 * The public scores, and the archive where there is an export, as a schema.org Dataset with the members of Croissant
 * 1.0. Its version is MAJOR.COMMIT.0, MAJOR that of the API.
 */
export function renderDataset(
  addresses: Addresses,
  { list, commit, exported, since, newestUpdatedAt }: DatasetFacts,
) {
  const { license, citeAs, api } = addresses;
  const archive = exported && api !== null ? describeArchive(api, exported) : undefined;
  const file = "scores.json";
  return {
    "@context": context,
    "@type": "sc:Dataset",
    "@id": addressOf(addresses, layout.dataset),
    conformsTo: "http://mlcommons.org/croissant/1.0",
    name: siteName,
    description: datasetDescription,
    url: addressOf(addresses, layout.siteIndex),
    creator: creatorOf(addresses),
    ...(license !== null && { license }),
    ...(citeAs !== null && { citeAs }),
    version: `1.${commit}.0`,
    datePublished: since,
    dateModified: newestUpdatedAt,
    isLiveDataset: true,
    isAccessibleForFree: true,
    keywords: ["DeFi", "risk score", "protocol risk", "Forge Scale"],
    subjectOf: {
      "@type": "DataFeed",
      name: `${siteName}: changes of tier`,
      url: addressOf(addresses, layout.feed),
    },
    distribution: [
      {
        "@type": "cr:FileObject",
        "@id": file,
        name: file,
        description: "All scores, by BRI from the highest down.",
        contentUrl: addressOf(addresses, layout.stableScoreList),
        contentSize: `${list.bytes} B`,
        encodingFormat: "application/json",
        sha256: list.hash,
      },
      ...(archive?.distribution ?? []),
    ],
    recordSet: [
      {
        "@type": "cr:RecordSet",
        "@id": "scores",
        name: "scores",
        description: "One row for each protocol.",
        key: { "@id": "scores/slug" },
        field: Object.entries({ ...scoreHead, ...described }).map(([name, shape]) => ({
          "@type": "cr:Field",
          "@id": `scores/${name}`,
          name,
          ...("meaning" in shape && { description: shape.meaning }),
          dataType: columnTypes[shape.kind],
          source: { fileObject: { "@id": file }, extract: { jsonPath: `$.scores[*].${name}` } },
        })),
      },
      ...(archive?.recordSet ?? []),
    ],
  };
}

const croissantTerms =
  "citeAs column extract field fileObject fileProperty fileSet format includes isLiveDataset jsonPath key md5 " +
  "parentField path recordSet references regex repeated replace separator source subField transform";

/** Croissant 1.0 asks for this context, in the order of its members' names. */
const context = Object.fromEntries(
  Object.entries({
    ...Object.fromEntries(croissantTerms.split(" ").map((term) => [term, `cr:${term}`])),
    "@language": "en",
    "@vocab": "https://schema.org/",
    conformsTo: "dct:conformsTo",
    cr: "http://mlcommons.org/croissant/",
    data: { "@id": "cr:data", "@type": "@json" },
    dataType: { "@id": "cr:dataType", "@type": "@vocab" },
    dct: "http://purl.org/dc/terms/",
    examples: { "@id": "cr:examples", "@type": "@json" },
    rai: "http://mlcommons.org/croissant/RAI/",
    sc: "https://schema.org/",
  }).sort(([a], [b]) => (a < b ? -1 : 1)),
);

/** The Parquet files of an export, and their columns that hold one value each. */
function describeArchive(api: string, { snapshotId, files }: ExportRecord) {
  // Tools for Croissant know Parquet by this name.
  const encodingFormat = "application/x-parquet";
  const fileObjects = files.map(({ bytes, rows, hash }, index) => ({
    "@type": "cr:FileObject",
    "@id": exportFileName(index),
    name: exportFileName(index),
    description: `${rows} markets of snapshot ${snapshotId}, from the newest on.`,
    contentUrl: `${api}/markets/exports/${snapshotId}/${exportFileName(index)}`,
    contentSize: `${bytes} B`,
    encodingFormat,
    sha256: hash,
    isAccessibleForFree: false,
    conditionsOfAccess: "An API key of the Aegis plan, in the header x-api-key.",
  }));
  const fileSet = {
    "@type": "cr:FileSet",
    "@id": "markets.parquet",
    name: "markets.parquet",
    description: "All files of the export.",
    containedIn: fileObjects.map((each) => ({ "@id": each["@id"] })),
    encodingFormat,
    includes: "*.parquet",
  };
  const columns = Object.entries(market).flatMap(([name, { kind }]) =>
    kind in columnTypes
      ? [{ name: sourceName(name), dataType: columnTypes[kind as keyof typeof columnTypes] }]
      : [],
  );
  const json = { name: "json", description: "The market byte for byte as published.", dataType: "sc:Text" };
  const recordSet = {
    "@type": "cr:RecordSet",
    "@id": "markets",
    name: "markets",
    description: "One row for each resolved market, from the newest on.",
    key: { "@id": "markets/id" },
    field: [...columns, json].map((column) => ({
      "@type": "cr:Field",
      "@id": `markets/${column.name}`,
      ...column,
      source: { fileSet: { "@id": fileSet["@id"] }, extract: { column: column.name } },
    })),
  };
  return { distribution: [...fileObjects, fileSet], recordSet: [recordSet] };
}

const columnTypes = {
  text: "sc:Text",
  integer: "sc:Integer",
  double: "sc:Float",
  boolean: "sc:Boolean",
  time: "sc:DateTime",
} as const;

/** For schema.org: a page about the data of one protocol. */
export function renderPageData(addresses: Addresses, record: ProtocolScore) {
  const { slug, bri, forgeScale, confidence, updatedAt, dimensions } = record;
  const measured = (name: string, value: number | string, description: string, maxValue?: number) => ({
    "@type": "PropertyValue",
    name,
    value,
    ...(maxValue !== undefined && { minValue: 0, maxValue }),
    description,
  });
  const about = `${slug}: BRI ${bri} of 1,000, tier ${forgeScale}. ${meanings.bri.meaning}`;
  return {
    "@context": "https://schema.org",
    "@type": "WebPage",
    "@id": addressOf(addresses, layout.protocolPage(slug)),
    url: addressOf(addresses, layout.protocolPage(slug)),
    name: `Risk score of ${slug}`,
    description: about,
    dateModified: updatedAt,
    isPartOf: { "@type": "WebSite", name: siteName, url: addressOf(addresses, layout.siteIndex) },
    mainEntity: {
      "@type": "Dataset",
      name: `Risk score of ${slug}`,
      description: about,
      url: addressOf(addresses, layout.protocolPage(slug)),
      dateModified: updatedAt,
      creator: creatorOf(addresses),
      isAccessibleForFree: true,
      isPartOf: addressOf(addresses, layout.dataset),
      distribution: {
        "@type": "DataDownload",
        encodingFormat: "application/json",
        contentUrl: addressOf(addresses, layout.stableScore(slug)),
      },
      variableMeasured: [
        measured("bri", bri, meanings.bri.meaning, 1000),
        measured("forgeScale", forgeScale, meanings.tier.meaning),
        measured("confidence", confidence, meanings.confidence.meaning, 100),
        ...protocolDimensionKeys.map((key) =>
          measured(key, dimensions[key], meanings.protocolDimension.meaning, 100),
        ),
      ],
    },
  };
}

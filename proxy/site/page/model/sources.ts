import type { Api } from "./api.ts";
import { minutes } from "./words.ts";

/** The request for the data of a chart: a path below the API, and filters. A name tells several apart. */
export interface Asked {
  path: string;
  filters?: URLSearchParams;
  name?: string;
}

/** An address of data, and which state the data is of. */
export interface Source {
  name: string;
  address: string;
  state: string;
  /** Whether the address stays with that state. */
  pinned: boolean;
  /** The part of a curl command that sends the key. */
  key?: string;
  csv?: boolean;
  note?: string;
}

/** The source of a request's data, pinned to the state shown where that is possible. */
export async function sourceOf(api: Api, { path, filters, name = "" }: Asked): Promise<Source> {
  // The list of scores, or a record.
  const isPublic = /^scores(\/[^/]+)?$/.test(path) && !filters?.has("asOf");
  const newest = "This address shows the newest scores, whatever these are by then.";
  if (isPublic && api.scores !== api.service) {
    const hash = await api.files.hashOf(path);
    return {
      name,
      address: new URL(hash ? `objects/${hash}.json` : `api/v1/${path}.json`, document.baseURI).href,
      state: hash ? `SHA-256 ${hash}` : "the newest scores",
      pinned: hash !== undefined,
      note: hash
        ? "The address is named by the hash of what it shows, and is there as long as a snapshot that has it is kept."
        : newest,
    };
  }
  const { snapshotId, publishedAt } = await api.pin();
  const shown = `snapshot ${snapshotId}, published ${minutes(publishedAt)}`;
  if (isPublic && !api.keyed)
    return {
      name,
      address: `${api.base}/${path}`,
      state: shown,
      pinned: false,
      csv: true,
      note: `${newest} An earlier state takes a Developer key.`,
    };
  const asOf = filters?.get("asOf") ?? snapshotId;
  const query = new URLSearchParams({ ...Object.fromEntries(filters ?? []), asOf });
  const other = /^[0-9a-f]{64}$/.test(asOf) ? `snapshot ${asOf}` : `as of ${asOf}`;
  return {
    name,
    address: `${api.base}/${path}?${query}`,
    state: asOf === snapshotId ? shown : other,
    pinned: true,
    csv: true,
    // Earlier states take a key, even where the newest takes none.
    key: '-H "x-api-key: $KEY" ',
  };
}

/** A citation: the state that the sources are of, if it is one for all, and their addresses. */
export function citationOf(sources: readonly Source[]) {
  const states = [...new Set(sources.map(({ state }) => state))];
  const state = states.length === 1 ? `, ${states}` : "";
  const cited = sources.map(({ address, pinned }) => address + (pinned ? "" : " (goes on to later scores)"));
  return (title?: string) => `Protocol Risk Scores${title ? `: ${title}` : ""}${state}. ${cited.join(" ")}`;
}

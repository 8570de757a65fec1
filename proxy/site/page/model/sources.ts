import type { Api } from "./api.ts";
import { minutes } from "./words.ts";

/** What was asked for the data of a chart: a path below the API, and filters. A name tells several apart. */
export interface Asked {
  path: string;
  filters?: URLSearchParams;
  name?: string;
}

/** Where data is found, and of what state it is. */
export interface Source {
  name: string;
  address: string;
  state: string;
  /** Whether the address stays with that state. */
  pinned: boolean;
  /** What a line for curl needs beside the address. */
  key?: string;
  /** Whether the address gives CSV too. */
  csv?: boolean;
  note?: string;
}

/** The source of what was asked, pinned to what is shown where that can be. */
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
    // What was once takes a key, also where the newest takes none.
    key: '-H "x-api-key: $KEY" ',
  };
}

/** Which state sources are of, if all are of one, and where they are. */
export function citationOf(sources: readonly Source[]) {
  const states = [...new Set(sources.map(({ state }) => state))];
  const state = states.length === 1 ? `, ${states}` : "";
  const cited = sources.map(({ address, pinned }) => address + (pinned ? "" : " (goes on to later scores)"));
  return (title?: string) => `Protocol Risk Scores${title ? `: ${title}` : ""}${state}. ${cited.join(" ")}`;
}

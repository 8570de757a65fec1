import { Fragment } from "preact";
import { useState } from "preact/hooks";
import type { Api } from "../model/api.ts";
import { useLoaded, useSaving, useSite } from "../model/hooks.ts";
import { isKeyed } from "../model/state.ts";
import { minutes } from "../model/words.ts";
import { type Plate, pngOf, svgOf } from "./plate.tsx";
import { Copyable } from "./text.tsx";
import { Failure, Loading } from "./view.tsx";

/** A chart whose data can be saved and cited. Some have no picture. */
export interface Taken extends Omit<Plate, "picture">, Partial<Pick<Plate, "picture">> {
  /** The name of its files. */
  name: string;
  requests: () => DataRequest[];
  /** The address of a page for frames. */
  embed?: string;
}

/**
 * A menu with the data of a chart, pinned to the state shown where that is possible, its picture, and how to cite it.
 */
export const TakeAlong = (chart: Taken) => <TakeAnyAlong charts={[chart]} />;

/** One menu for several charts, of which one is chosen. */
export function TakeAnyAlong({ charts }: { charts: readonly Taken[] }) {
  const { api } = useSite();
  const [open, setOpen] = useState(false);
  const [chosen, choose] = useState("");
  const chart = charts.find(({ name }) => name === chosen) ?? charts[0];
  const wanted = chart?.requests() ?? [];
  const inputs = wanted.map(({ path, filters }) => `${path}?${filters ?? ""}`).join(" ");
  const sources = useLoaded(
    async () =>
      open
        ? Promise.all(wanted.map(async ({ name = "", ...own }) => ({ name, ...(await sourceOf(api, own)) })))
        : [],
    [open, inputs],
  );
  return (
    <details class="take-along" onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>{charts.length > 1 ? "Take a chart along" : "Take this chart along"}</summary>
      {open && charts.length > 1 && (
        <label>
          Chart{" "}
          <select value={chart?.name ?? ""} onChange={({ currentTarget }) => choose(currentTarget.value)}>
            {charts.map(({ name, title }) => (
              <option key={name} value={name}>
                {title}
              </option>
            ))}
          </select>
        </label>
      )}
      {open && chart && (
        <Loading of={sources} words="Asking which state this is…">
          {(loaded) => loaded.length > 0 && <Contents key={chart.name} chart={chart} sources={loaded} />}
        </Loading>
      )}
    </details>
  );
}

function Contents({ chart, sources }: { chart: Taken; sources: readonly (Source & { name: string })[] }) {
  const { api } = useSite();
  const { problem, save } = useSaving();
  const citation = citationOf(sources);
  const file = (name: string, make: () => Blob | Promise<Blob>) => (
    <button type="button" onClick={() => save(name, make)}>
      {name.split(".").at(-1)?.toUpperCase()}
    </button>
  );
  const { picture } = chart;
  const plate = picture && (() => svgOf({ ...chart, picture }, citation()));
  return (
    <>
      {sources.map(({ name: part, address, key = "", csv }, index) => {
        // Only the number of the part: its name may be a text that a shell would take for something else.
        const own = part ? `${chart.name}-${index + 1}` : chart.name;
        return (
          <Fragment key={part}>
            <p class="row tight">
              {part ? `${part}: ` : "Data: "}
              {/* Excel takes a file without the mark for another encoding. */}
              {csv && file(`${own}.csv`, () => api.download(address, "text/csv; bom=present"))}
              {file(`${own}.json`, () => api.download(address, "application/json"))}
            </p>
            <Copyable
              name={`Data as JSON${part && `, ${part}`}`}
              text={`curl -sS --fail --compressed ${key}"${address}" -o ${own}.json`}
            />
          </Fragment>
        );
      })}
      <p class="quiet">
        {sources.some(({ csv }) => csv) &&
          'Each file takes a request of the day’s quota. The same line with -H "Accept: text/csv" gives CSV. '}
        {[...new Set(sources.map(({ note }) => note))]}
      </p>
      {plate && (
        <p class="row tight">
          Picture: {file(`${chart.name}.svg`, () => new Blob([plate().text], { type: "image/svg+xml" }))}
          {file(`${chart.name}.png`, () => pngOf(plate()))}
        </p>
      )}
      <Copyable name="Citation" text={citation(chart.title)} />
      {chart.embed !== undefined && (
        <Copyable name="HTML for other pages" text={frameFor(chart.embed, chart.title)} />
      )}
      <div role="status">{problem !== undefined && <Failure error={problem} />}</div>
    </>
  );
}

export const frameFor = (address: string, title: string) =>
  `<iframe src="${address}" title="${title}" width="420" height="480" loading="lazy"></iframe>`;

/** The request for the data of a chart: a path below the API, and filters. A name tells several apart. */
interface DataRequest {
  path: string;
  filters?: URLSearchParams;
  name?: string;
}

type Source = Awaited<ReturnType<typeof sourceOf>>;

/**
 * The address of a request's data, and which state the data is of. It is `pinned` where the address stays with that
 * state.
 */
async function sourceOf(api: Api, { path, filters }: DataRequest) {
  // The list of scores, or a record.
  const isPublic = /^scores(\/[^/]+)?$/.test(path) && !filters?.has("asOf");
  const newest = "This address shows the newest scores, whatever these are by then.";
  if (isPublic && api.files) {
    const hash = await api.files.hashOf(path);
    return {
      address: new URL(hash ? `objects/${hash}.json` : `api/v1/${path}.json`, document.baseURI).href,
      state: hash ? `SHA-256 ${hash}` : "the newest scores",
      pinned: hash !== undefined,
      note: hash
        ? "The address is named by the hash of what it shows, and is there as long as a snapshot that has it is kept."
        : newest,
    };
  }
  const { snapshotId, publishedAt } = await api.pin();
  const current = `snapshot ${snapshotId}, published ${minutes(publishedAt)}`;
  if (isPublic && !isKeyed(api.state))
    return {
      address: `${api.base}/${path}`,
      state: current,
      pinned: false,
      csv: true,
      note: `${newest} An earlier state takes a Developer key.`,
    };
  const asOf = filters?.get("asOf") ?? snapshotId;
  const query = new URLSearchParams({ ...Object.fromEntries(filters ?? []), asOf });
  const other = /^[0-9a-f]{64}$/.test(asOf) ? `snapshot ${asOf}` : `as of ${asOf}`;
  return {
    address: `${api.base}/${path}?${query}`,
    state: asOf === snapshotId ? current : other,
    pinned: true,
    csv: true,
    // Earlier states take a key, even where the newest takes none.
    key: '-H "x-api-key: $KEY" ',
  };
}

/** A citation: the state that the sources are of, if it is one for all, and their addresses. */
function citationOf(sources: readonly Source[]) {
  const states = [...new Set(sources.map(({ state }) => state))];
  const state = states.length === 1 ? `, ${states}` : "";
  const cited = sources.map(({ address, pinned }) => address + (pinned ? "" : " (goes on to later scores)"));
  return (title?: string) => `Protocol Risk Scores${title ? `: ${title}` : ""}${state}. ${cited.join(" ")}`;
}

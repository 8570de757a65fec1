import { copyable, failure, fill, html, svg } from "./dom.js";
import { minutes } from "./words.js";

/** @import { Api } from "../api.ts" */

/**
 * What was asked for the data of a chart: a path below the API, and filters. A name tells several apart.
 * @typedef {{ path: string, filters?: URLSearchParams, name?: string }} Asked
 */

/**
 * What those who take a chart along need of it.
 * @typedef {object} Taken
 * @property {string} name of its files
 * @property {string} title
 * @property {() => Element | null | undefined} [frame] holds its picture, and perhaps the ends of its axis
 * @property {() => Asked[]} asked
 * @property {string} [embed] the address of a page for frames
 */

/**
 * Where data is found, and of what state it is. `pinned` tells that the address stays with that state, and `csv` that it
 * gives CSV too. A line for curl needs `key`.
 * @typedef {object} Source
 * @property {string} name
 * @property {string} address
 * @property {string} state
 * @property {boolean} pinned
 * @property {string} [key]
 * @property {boolean} [csv]
 * @property {string} [note]
 */

/**
 * A panel with the data of a chart, pinned to what is shown where that can be, its picture, and how to cite it.
 * @param {Api} api
 * @param {Taken} taken
 */
export function takeAlong(api, taken) {
  const body = html("div");
  const panel = html("details", { class: "take-along" }, html("summary", {}, "Take this chart along"), body);
  panel.addEventListener("toggle", async () => {
    if (!panel.open) return;
    try {
      const sources = await Promise.all(taken.asked().map((asked) => sourceOf(api, asked)));
      fill(body, ...contentOf(api, taken, sources));
    } catch (error) {
      fill(body, failure(error));
    }
  });
  return panel;
}

/**
 * @param {Api} api
 * @param {Asked} asked
 * @returns {Promise<Source>}
 */
async function sourceOf(api, { path, filters, name = "" }) {
  // The list of scores, or a record.
  const isPublic = /^scores(\/[^/]+)?$/.test(path) && !filters?.has("asOf");
  const newest = "This address shows the newest scores, whatever these are by then.";
  if (isPublic && api.scores !== api.service) {
    const hash = await api.hashOf(path);
    const file = hash ? `objects/${hash}.json` : `api/v1/${path}.json`;
    return {
      name,
      address: new URL(file, document.baseURI).href,
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

/**
 * @param {Api} api
 * @param {Taken} taken
 * @param {Source[]} sources
 */
function contentOf(api, { name, title, frame, embed }, sources) {
  const problem = html("div", { role: "status" });
  const file = (/** @type {string} */ file, /** @type {() => Blob | Promise<Blob>} */ make) =>
    html(
      "button",
      {
        type: "button",
        onclick: async () => {
          fill(problem);
          try {
            save(await make(), file);
          } catch (error) {
            fill(problem, failure(error));
          }
        },
      },
      file.split(".").at(-1)?.toUpperCase(),
    );
  const states = [...new Set(sources.map(({ state }) => state))];
  const state = states.length === 1 ? `, ${states}` : "";
  const cited = sources.map(({ address, pinned }) => address + (pinned ? "" : " (goes on to later scores)"));
  const picture = () => standalone(frame?.(), title, `Protocol Risk Scores${state}`);
  return [
    sources.map(({ name: part, address, key = "", csv }, index) => {
      // Of the part itself only its number: it may be a text that a shell would take for something else.
      const own = part ? `${name}-${index + 1}` : name;
      const get = (/** @type {string} */ type) => () => api.download(address, type);
      return [
        html(
          "p",
          { class: "files" },
          part ? `${part}: ` : "Data: ",
          // Excel takes a file without the mark for another encoding.
          csv && file(`${own}.csv`, get("text/csv; bom=present")),
          file(`${own}.json`, get("application/json")),
        ),
        copyable(
          `Data as JSON${part && `, ${part}`}`,
          `curl -sS --fail --compressed ${key}"${address}" -o ${own}.json`,
        ),
      ];
    }),
    html(
      "p",
      { class: "quiet" },
      sources.some(({ csv }) => csv) &&
        'Each file takes a request of the day’s quota. The same line with -H "Accept: text/csv" gives CSV. ',
      ...new Set(sources.map(({ note }) => note)),
    ),
    frame &&
      html(
        "p",
        { class: "files" },
        "Picture: ",
        file(`${name}.svg`, () => new Blob([picture().text], { type: "image/svg+xml" })),
        file(`${name}.png`, () => pngOf(picture())),
      ),
    copyable("Citation", `Protocol Risk Scores: ${title}${state}. ${cited.join(" ")}`),
    embed && copyable("HTML for other pages", frameOf(embed, title)),
    problem,
  ].flat(2);
}

/** HTML that shows a page in a frame.
 * @param {string} address
 * @param {string} title */
export const frameOf = (address, title) =>
  `<iframe src="${address}" title="${title}" width="420" height="480" loading="lazy"></iframe>`;

/** What the style sheet says of a shape. */
const styled = [
  ...["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "vector-effect"],
  ...["font-family", "font-size", "font-weight", "text-anchor"],
];

/**
 * The picture of a chart as an SVG that needs nothing else, with its title, the ends of its axis and its source.
 * @param {Element | null | undefined} frame
 * @param {string} title
 * @param {string} source
 */
function standalone(frame, title, source) {
  const picture = frame?.querySelector("svg");
  if (!frame || !picture) throw new Error("The chart is not there any more.");
  const { width, height } = picture.getBoundingClientRect();
  const copy = /** @type {SVGElement} */ (picture.cloneNode(true));
  const copies = [copy, ...copy.querySelectorAll("*")];
  for (const [index, shape] of [picture, ...picture.querySelectorAll("*")].entries()) {
    const style = getComputedStyle(shape);
    for (const property of styled) copies[index]?.setAttribute(property, style.getPropertyValue(property));
    copies[index]?.removeAttribute("class");
  }
  for (const [attribute, value] of Object.entries({ y: 36, width, height }))
    copy.setAttribute(attribute, `${value}`);
  const page = getComputedStyle(document.body);
  const text = (
    /** @type {string} */ words,
    /** @type {number} */ x,
    /** @type {number} */ y,
    size = 11,
    end = "start",
  ) =>
    svg(
      "text",
      { x, y, fill: page.color, "font-family": page.fontFamily, "font-size": size, "text-anchor": end },
      words,
    );
  const axis = [...frame.querySelectorAll(".axis > *")].map(({ textContent }) => `${textContent}`);
  const last = axis.length - 1;
  const whole = svg(
    "svg",
    { width: Math.ceil(width), height: Math.ceil(height) + 84 },
    svg("rect", { width: "100%", height: "100%", fill: page.backgroundColor }),
    text(title, 4, 22, 16),
    copy,
    axis.map((words, index) =>
      text(
        words,
        (width * index) / (last || 1),
        height + 52,
        11,
        ["start", "middle", "end"][Math.ceil((2 * index) / (last || 1))],
      ),
    ),
    text(source, 4, height + 76),
  );
  return { text: new XMLSerializer().serializeToString(whole), width, height: height + 84 };
}

/** @param {ReturnType<typeof standalone>} picture
 * @returns {Promise<Blob>} at twice its size, for screens that show more than one pixel a point */
async function pngOf({ text, width, height }) {
  const image = new Image();
  image.src = `data:image/svg+xml,${encodeURIComponent(text)}`;
  await image.decode();
  const canvas = html("canvas", { width: Math.ceil(2 * width), height: Math.ceil(2 * height) });
  canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve, reject) => {
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("The picture could not be drawn."))));
  });
}

/**
 * Saves a file as the browser saves downloads.
 * @param {Blob} file
 * @param {string} name
 */
export function save(file, name) {
  const href = URL.createObjectURL(file);
  html("a", { href, download: name }).click();
  URL.revokeObjectURL(href);
}

import { copyable, failure, fill, html, svg } from "./dom.js";
import { minutes } from "./words.js";

/** @import { Api } from "./api.js" */

/**
 * What those who take a chart along need of it.
 * @typedef {object} Taken
 * @property {string} name of its files
 * @property {string} title
 * @property {() => Element | null | undefined} frame holds its picture, and perhaps the ends of its axis
 * @property {() => readonly (readonly (string | number)[])[]} rows its data, below the names of the columns
 * @property {string} path of its data below the API
 * @property {() => URLSearchParams} [filters]
 * @property {string} [embed] the address of a page for frames
 */

/**
 * A panel with the data of a chart, pinned to the snapshot that is shown, its picture, and how to cite it.
 * @param {Api} api
 * @param {Taken} taken
 */
export function takeAlong(api, taken) {
  const body = html("div");
  const panel = html("details", { class: "take-along" }, html("summary", {}, "Take this chart along"), body);
  panel.addEventListener("toggle", async () => {
    if (!panel.open) return;
    try {
      fill(body, ...contentOf(taken, await sourceOf(api, taken)));
    } catch (error) {
      fill(body, failure(error));
    }
  });
  return panel;
}

/**
 * Where the data is found, and of what state it is.
 * @param {Api} api
 * @param {Taken} taken
 */
async function sourceOf(api, { path, filters }) {
  if (!api.live)
    return {
      address: new URL(api.addresses.scores, document.baseURI).href,
      state: "the newest snapshot",
      key: "",
    };
  const { snapshotId, publishedAt } = await api.pin();
  const asked = filters?.() ?? new URLSearchParams();
  const asOf = asked.get("asOf") ?? snapshotId;
  const query = new URLSearchParams({ ...Object.fromEntries(asked), asOf });
  const when = asOf === snapshotId ? `, published ${minutes(publishedAt)}` : "";
  const state = /^[0-9a-f]{64}$/.test(asOf) ? `snapshot ${asOf}${when}` : `as of ${asOf}`;
  // What was once takes a key, also where the newest takes none.
  const key = '-H "x-api-key: $KEY" ';
  return { address: `${api.base}/${path}?${query}`, state, key };
}

/**
 * @param {Taken} taken
 * @param {{ address: string, state: string, key: string }} source
 */
function contentOf({ name, title, frame, rows, embed }, { address, state, key }) {
  const problem = html("div", { role: "status" });
  const file = (/** @type {string} */ ending, /** @type {() => Blob | Promise<Blob>} */ make) =>
    html(
      "button",
      {
        type: "button",
        onclick: async () => {
          fill(problem);
          try {
            save(await make(), `${name}.${ending}`);
          } catch (error) {
            fill(problem, failure(error));
          }
        },
      },
      ending.toUpperCase(),
    );
  const picture = () => standalone(frame(), title, `Protocol Risk Scores, ${state}`);
  return [
    html(
      "p",
      { class: "files" },
      "Save as ",
      file("csv", () => new Blob([csvOf(rows())], { type: "text/csv" })),
      file("svg", () => new Blob([picture().text], { type: "image/svg+xml" })),
      file("png", () => pngOf(picture())),
    ),
    copyable("Data as JSON", `curl -sS --fail --compressed ${key}"${address}" -o ${name}.json`),
    copyable("Citation", `Protocol Risk Scores: ${title}, ${state}. ${address}`),
    embed && copyable("HTML for other pages", frameOf(embed, title)),
    problem,
  ];
}

/** HTML that shows a page in a frame.
 * @param {string} address
 * @param {string} title */
export const frameOf = (address, title) =>
  `<iframe src="${address}" title="${title}" width="420" height="480" loading="lazy"></iframe>`;

/** RFC 4180.
 * @param {readonly (readonly (string | number)[])[]} rows */
const csvOf = (rows) =>
  rows
    .map((row) => `${row.map((cell) => (/[",\r\n]/.test(`${cell}`) ? quoted(`${cell}`) : cell))}\r\n`)
    .join("");

/** @param {string} text */
const quoted = (text) => `"${text.replaceAll('"', '""')}"`;

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

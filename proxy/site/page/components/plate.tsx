import { type ComponentChildren, render } from "preact";
import { FixedWidth } from "../charts/picture.tsx";
import { filterParts } from "../model/filters.ts";

/** The meaning of a colour or mark of a chart. */
interface LegendEntry {
  text: string;
  /** The class of what has that colour: `tier-3`, `first`. */
  class: string;
  /** A part of a column if left out. */
  shape?: "dot" | "diamond" | undefined;
}

/** A chart, and what stands around it in a file of its own. */
export interface Plate {
  title: string;
  /** The filters of its data; left out where there can be none. */
  filters?: URLSearchParams;
  /** How many it shows, in words. */
  n?: string;
  legend?: readonly LegendEntry[];
  /** Draws it. Paragraphs beside the chart become notes below it. */
  picture: () => ComponentChildren;
}

/** CSS pixels. */
const width = 1200;
const edge = 40;
const room = width - 2 * edge;
/** In its own size, a chart's text would be too small on a page or slide. */
const zoom = 1.5;

/** The properties that the style sheet sets on shapes. */
const styled = [
  ...["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "vector-effect"],
  ...["font-family", "font-size", "font-weight", "text-anchor"],
];

/**
 * A chart as an SVG that needs no other file, laid out for a page of its own: with its title, how many it shows of what
 * was chosen, its legend and its source, in the light palette.
 */
export function svgOf({ title, filters, n, legend = [], picture }: Plate, source: string) {
  const host = document.createElement("div");
  host.className = "plate";
  host.ariaHidden = "true";
  document.body.append(host);
  const draw = (content: ComponentChildren) => {
    render(content, host);
    const drawn = host.querySelector("svg");
    if (!drawn) throw new Error("The picture could not be drawn.");
    // In place, since the style of a shape depends on what is around it.
    inlineStyle(drawn);
    return drawn;
  };
  try {
    const chart = draw(<FixedWidth.Provider value={room / zoom}>{picture()}</FixedWidth.Provider>);
    const notes = [...host.querySelectorAll("p")].map(({ textContent }) => textContent);
    const chosen = [...(filters ?? [])].map(([name, value]) => filterParts(name, value).join(""));
    const subtitle = [n && `n = ${n}`, chosen.join(" · ") || (filters && "without filters")];
    const size = chart.height.baseVal.value;
    const { shapes, place, height } = around(size * zoom, {
      title,
      subtitle: subtitle.filter(Boolean).join(" · "),
      legend,
      notes: [...notes, `Source: ${source}`],
    });
    const whole = draw(
      <svg width={width} height={height}>
        <title>{title}</title>
        <rect width="100%" height="100%" fill="var(--paper)" />
        {shapes}
      </svg>,
    );
    for (const [name, value] of Object.entries({
      ...{ x: edge, y: place, width: room, height: size * zoom },
      viewBox: `0 0 ${room / zoom} ${size}`,
    }))
      chart.setAttribute(name, `${value}`);
    whole.append(chart);
    return { text: new XMLSerializer().serializeToString(whole), height };
  } finally {
    render(null, host);
    host.remove();
  }
}

/** Writes the style sheet's properties of shapes into attributes of their own. */
function inlineStyle(picture: SVGElement) {
  const shapes = [picture, ...picture.querySelectorAll("*")];
  const styles = shapes.map((shape) => {
    const style = getComputedStyle(shape);
    return styled.map((property) => [property, style.getPropertyValue(property)] as const);
  });
  for (const [index, shape] of shapes.entries()) {
    for (const [property, value] of styles[index] ?? []) shape.setAttribute(property, value);
    shape.removeAttribute("class");
  }
}

interface Surroundings extends Pick<Required<Plate>, "title" | "legend"> {
  subtitle: string;
  notes: readonly string[];
}

/** What stands above and below a chart of this height, from top to bottom, and where the chart itself begins. */
function around(chart: number, { title, subtitle, legend, notes }: Surroundings) {
  const shapes: ComponentChildren[] = [];
  let y = edge;
  const write = (text: string, font: Font, x = edge, fill = "var(--soft)") => {
    const lines = wrapped(text, font, width - edge - x);
    for (const line of lines) {
      y += 1.4 * font.size;
      shapes.push(
        <text x={x} y={y - 0.4 * font.size} fill={fill} font-size={font.size} font-weight={font.weight}>
          {line}
        </text>,
      );
    }
  };
  write(title, { size: 30, weight: 600 }, edge, "var(--ink)");
  if (subtitle) write(subtitle, { size: 17, weight: 400 });
  y += 8;
  const small = { size: 15, weight: 400 };
  let x = edge;
  for (const entry of legend) {
    const length = 22 + lengthOf(entry.text, small);
    // On the same line as the one before, if there is room.
    if (x > edge && x + length <= width - edge) y -= 1.4 * small.size;
    else x = edge;
    shapes.push(<Mark {...entry} x={x} y={y + 0.65 * small.size} />);
    write(entry.text, small, x + 22);
    x += length + 24;
  }
  y += 12;
  const place = y;
  y += chart + 8;
  for (const note of notes) write(note, small);
  return { shapes, place, height: Math.ceil(y + edge - 10) };
}

/** The mark of an entry of the legend. `x` is its left edge, `y` its middle. */
const Mark = ({ class: name, shape, x, y }: LegendEntry & { x: number; y: number }) => (
  <g class={name}>
    {shape === undefined ? (
      <rect class="column" x={x} y={y - 7} width={14} height={14} />
    ) : shape === "dot" ? (
      <circle fill="currentColor" cx={x + 7} cy={y} r={6} />
    ) : (
      <path fill="currentColor" d={`M${x + 7} ${y - 7}l7 7l-7 7l-7 -7z`} />
    )}
  </g>
);

/** At twice its size, for screens with more than one device pixel per CSS pixel. */
export async function pngOf({ text, height }: ReturnType<typeof svgOf>): Promise<Blob> {
  const image = new Image();
  image.src = `data:image/svg+xml,${encodeURIComponent(text)}`;
  await image.decode();
  const canvas = new OffscreenCanvas(2 * width, 2 * height);
  canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
  return canvas.convertToBlob();
}

interface Font {
  /** CSS pixels. */
  size: number;
  weight: number;
}

let measuring: CanvasRenderingContext2D | null | undefined;

/** In CSS pixels. */
function lengthOf(text: string, { size, weight }: Font): number {
  measuring ??= document.createElement("canvas").getContext("2d");
  if (!measuring) throw new Error("This browser cannot measure text.");
  measuring.font = `${weight} ${size}px ${getComputedStyle(document.body).fontFamily}`;
  return measuring.measureText(text).width;
}

/** Text in lines that fit into a width. A word that is too long for a line, such as an address, is broken within. */
function wrapped(text: string, font: Font, width: number): string[] {
  const lines: string[] = [];
  let line = "";
  for (const letter of text) {
    if (line === "" || lengthOf(line + letter, font) <= width) line += letter;
    else {
      const space = (line + letter).lastIndexOf(" ");
      lines.push(space > 0 ? line.slice(0, space) : line);
      line = space > 0 ? (line + letter).slice(space + 1) : letter;
    }
  }
  return line === "" ? lines : [...lines, line];
}

import { type ComponentChildren, type ComponentProps, createContext } from "preact";
import { useContext, useLayoutEffect, useRef, useState } from "preact/hooks";
import { stepOf, tiers } from "../model/words.ts";

/** The width in CSS pixels of all pictures within, where they are drawn for a file. */
export const FixedWidth = createContext<number | undefined>(undefined);

interface PictureProps extends Omit<ComponentProps<"svg">, "children" | "class" | "height"> {
  /** CSS pixels. */
  height: number;
  label: string;
  /** The text to read out for each part that the arrow keys reach. */
  texts: readonly string[];
  class?: string;
  /** Called with a key, the part before it, and the part after it. */
  onKey?: (event: KeyboardEvent, from: number, to: number) => void;
  /** `here` is the part that the arrow keys are at, or −1. */
  children: (drawn: { width: number; here: number }) => ComponentChildren;
}

/**
 * A chart, drawn for the width of its place: in a scaled one, text would be too small to read on a phone. The arrow
 * keys walk over its parts as over the values of a slider, so that screen readers read them out; the same text is
 * shown.
 */
export function Picture({
  height,
  label,
  texts,
  class: name = "",
  onKey,
  children,
  ...handlers
}: PictureProps) {
  const fixed = useContext(FixedWidth);
  const frame = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(320);
  // Before the first paint, and whenever the place changes.
  useLayoutEffect(() => {
    const element = frame.current;
    if (!element) return undefined;
    const measure = () => {
      if (element.clientWidth >= leastWidth) setWidth(element.clientWidth);
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  const [place, go] = useState(0);
  const at = Math.min(place, texts.length - 1);
  if (fixed !== undefined)
    return (
      <svg class={`chart ${name}`} width={fixed} height={height} role="img" aria-label={label}>
        {children({ width: fixed, here: -1 })}
      </svg>
    );
  const walk = (event: KeyboardEvent) => {
    const places: Record<string, number> = {
      ArrowRight: at + 1,
      ArrowUp: at + 1,
      ArrowLeft: at - 1,
      ArrowDown: at - 1,
      Home: 0,
      End: texts.length - 1,
    };
    const wanted = places[event.key];
    const next = wanted === undefined ? at : Math.max(0, Math.min(texts.length - 1, wanted));
    if (wanted !== undefined) event.preventDefault();
    go(next);
    onKey?.(event, at, next);
  };
  const role =
    texts.length > 0
      ? ({
          role: "slider",
          tabIndex: 0,
          "aria-valuemin": 1,
          "aria-valuemax": texts.length,
          "aria-valuenow": at + 1,
          "aria-valuetext": texts[at],
          onKeyDown: walk,
        } as const)
      : ({ role: "img" } as const);
  return (
    <div class="frame" ref={frame}>
      <svg class={`chart ${name}`} width={width} height={height} aria-label={label} {...role} {...handlers}>
        {children({ width, here: at })}
      </svg>
      <p class="said" aria-hidden="true">
        {texts[at]}
      </p>
    </div>
  );
}

interface GridProps {
  ticks: readonly number[];
  y: (value: number) => number;
  from: number;
  to: number;
  spell: (value: number) => string;
}

/** Horizontal lines from one x to another, each with its value before it. */
export const Grid = ({ ticks, y, from, to, spell }: GridProps) => (
  <>
    {ticks.map((value) => (
      <g key={value}>
        <path class="grid" d={`M${from} ${y(value)}H${to}`} />
        <text x={from - 6} y={y(value) + 4} text-anchor="end">
          {spell(value)}
        </text>
      </g>
    ))}
  </>
);

/** Ascending round numbers that enclose two values, for an axis. */
export function ticksFor(min: number, max: number): number[] {
  const rough = Math.max((max - min) / 4, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5, 10].find((factor) => factor * power >= rough) ?? 10);
  const first = Math.floor(min / step) * step;
  const last = Math.max(Math.ceil(max / step) * step, first + step);
  return Array.from({ length: Math.round((last - first) / step) + 1 }, (_, index) => first + index * step);
}

/** Whatever is narrower is hidden, or not laid out yet. */
const leastWidth = 100;

/**
 * The bands of the tiers, lowest first, from the scores that have them: the service publishes tiers, not their borders.
 * A score between two bands may be of either tier. Undefined when scores of one tier lie among those of another, as
 * after a change of the formula.
 */
export function tierBands(scores: readonly { bri: number; forgeScale: string }[]) {
  const bands = tiers.flatMap((name, index) => {
    const own = scores.filter(({ forgeScale }) => forgeScale === name).map(({ bri }) => bri);
    return own.length > 0 ? [{ name, number: index + 1, from: Math.min(...own), to: Math.max(...own) }] : [];
  });
  return bands.every(({ from }, index) => from > (bands[index - 1]?.to ?? -1)) ? bands : undefined;
}

export type Band = NonNullable<ReturnType<typeof tierBands>>[number];

/** A bar of length `value / max`, to stand beside its number. `mark` is a second value. */
export const Bar = ({ value, max, mark }: { value: number; max: number; mark?: number }) => (
  <Stretched name="bar" box="0 0 100 1">
    <rect class="track" width={100} height={1} />
    <rect class="value" width={(100 * value) / max} height={1} />
    {mark !== undefined && <path class="mark" d={`M${(100 * mark) / max} 0V1`} />}
  </Stretched>
);

interface ScoredProps {
  value: number;
  max?: number;
  /** The number of its tier, where it has one. */
  step?: number;
}

/** A score with its bar, in the colour of its tier or of the step that it stands on. */
export const Scored = ({ value, max = 100, step = stepOf(value / max) }: ScoredProps) => (
  <span class={`score tier-${step}`}>
    <Bar value={value} max={max} />
    <b>{value}</b>
  </span>
);

/** A bar to the right of the middle for a gain, to the left for a loss. `most` is the length of half the picture. */
export function Diverging({ value, most }: { value: number; most: number }) {
  const length = Math.min(50, (50 * Math.abs(value)) / (most || 1));
  return (
    <Stretched name={`diverging ${value < 0 ? "down" : "up"}`} box="0 0 100 10">
      <rect x={value < 0 ? 50 - length : 50} y={2} width={length} height={6} />
      <path d="M50 0V10" />
    </Stretched>
  );
}

/** A picture stretched to the width of its place, so that it needs no redrawing. Screen readers skip it. */
const Stretched = ({ name, box, children }: { name: string; box: string; children: ComponentChildren }) => (
  <svg class={name} viewBox={box} preserveAspectRatio="none" aria-hidden="true">
    {children}
  </svg>
);

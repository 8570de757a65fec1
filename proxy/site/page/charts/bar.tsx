import type { ComponentChildren } from "preact";
import { stepOf } from "../model/words.ts";

/** A picture stretched to the width of its place, so that it needs no redrawing. Screen readers skip it. */
const Stretched = ({ name, box, children }: { name: string; box: string; children: ComponentChildren }) => (
  <svg class={name} viewBox={box} preserveAspectRatio="none" aria-hidden="true">
    {children}
  </svg>
);

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

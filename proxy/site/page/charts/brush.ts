import { useEffect, useRef, useState } from "preact/hooks";

export type Run = readonly [first: number, last: number];

export interface Brushing {
  /** Called whenever the columns under the brush change. */
  moved: (run: Run) => void;
  /** Called at the end, without a run if the brush was cancelled. */
  ended: (run?: Run) => void;
}

/**
 * Lets the pointer choose a run of columns: by dragging, or one by a click. With the keyboard, Enter chooses the column
 * that the arrow keys are at, and with Shift they draw a run along. Escape gives up.
 * @param columnAt the column at a place of the pointer on the picture, from 0 on
 */
export function useBrush(columnAt: (event: PointerEvent) => number, brushing: Brushing | undefined) {
  const [run, show] = useState<Run>();
  const drag = useRef<{ start: number; run: Run | undefined }>(undefined);
  const latest = useRef(brushing);
  latest.current = brushing;
  const reach = (column: number) => {
    if (!drag.current) return;
    const { start, run: before } = drag.current;
    const next: Run = [Math.min(start, column), Math.max(start, column)];
    if (`${next}` === `${before}`) return;
    drag.current.run = next;
    show(next);
    latest.current?.moved(next);
  };
  const stop = (isChosen: boolean) => {
    const { current } = drag;
    drag.current = undefined;
    show(undefined);
    if (current) latest.current?.ended(isChosen ? current.run : undefined);
  };
  // Always there: Escape may come before what the brush has moved is drawn.
  useEffect(() => {
    const cancel = ({ key }: KeyboardEvent) => key === "Escape" && stop(false);
    addEventListener("keydown", cancel);
    return () => removeEventListener("keydown", cancel);
  }, []);
  if (!brushing) return { run, handlers: {} };
  const start = (column: number) => {
    drag.current ??= { start: column, run: undefined };
    reach(column);
  };
  const handlers = {
    onPointerDown: (event: PointerEvent) => {
      if (event.target instanceof Element) event.target.setPointerCapture(event.pointerId);
      drag.current = undefined;
      start(columnAt(event));
    },
    onPointerMove: (event: PointerEvent) => reach(columnAt(event)),
    onPointerUp: () => stop(true),
    onPointerCancel: () => stop(false),
    onBlur: () => stop(false),
    onKey: ({ key, shiftKey }: KeyboardEvent, from: number, to: number) => {
      if (shiftKey && /^(Arrow|Home|End)/.test(key)) {
        start(from);
        reach(to);
      } else if (key === "Enter") {
        start(drag.current ? to : from);
        stop(true);
      } else if (key.startsWith("Arrow")) stop(false);
    },
  };
  return { run, handlers };
}

import type { Output } from "./shell.ts";

export type Progress = (step: string, done: number, of: number) => void;

/** Shows progress: on a terminal in one line that is redrawn, elsewhere in a plain line for every tenth of a step. */
export function progressOn(terminal: Output): Progress {
  let shown = "";
  return (step, done, of) => {
    const percent = of === 0 ? 100 : Math.floor((done / of) * 100);
    const line = `${step}: ${done} of ${of} (${terminal.isTTY ? percent : percent - (percent % 10)} %)`;
    const mark = `${step} ${terminal.isTTY ? percent : Math.floor(percent / 10)}`;
    if (mark === shown) return;
    shown = mark;
    terminal.write(terminal.isTTY ? `\r\u001b[K${line}${done >= of ? "\n" : ""}` : `${line}\n`);
  };
}

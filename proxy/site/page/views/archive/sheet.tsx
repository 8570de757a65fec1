import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { counted } from "../../model/words.ts";
import type { Problem } from "./problem.ts";

interface SheetProps {
  /** How many markets match, if known. */
  total: number | undefined;
  problem: Problem;
  children: ComponentChildren;
}

/** The filters: beside the markets, and on small screens, where they would hide the markets, in a sheet over them. */
export function Sheet({ total, problem, children }: SheetProps) {
  const sheet = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    const narrow = matchMedia("(max-width: 56rem)");
    const place = () => {
      sheet.current?.close();
      sheet.current?.toggleAttribute("open", !narrow.matches);
    };
    narrow.addEventListener("change", place);
    place();
    return () => narrow.removeEventListener("change", place);
  }, []);
  const wrong = problem?.parameter;
  const { error } = problem ?? {};
  useLayoutEffect(() => {
    const field = wrong === undefined ? null : document.getElementById(wrong);
    const { current } = sheet;
    if (current?.contains(field) && !current.open) current.showModal();
    field?.focus();
  }, [wrong, error]);
  return (
    <dialog ref={sheet} class="sheet" aria-labelledby="filters">
      <h2 id="filters" class="unseen">
        Filters
      </h2>
      {children}
      <p class="done" role="status">
        <button type="submit" onClick={() => sheet.current?.close()}>
          {total === undefined ? "Show markets" : `Show ${counted(total, "market")}`}
        </button>
      </p>
    </dialog>
  );
}

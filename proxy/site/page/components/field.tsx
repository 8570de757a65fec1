import type { ComponentProps } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { Failure } from "./failure.tsx";

type FieldProps = ComponentProps<"input"> & {
  query: URLSearchParams;
  /** What stands in the field when the query has changed. */
  text: string;
  /** Called with what else was entered, without spaces around it. */
  enter: (text: string) => void;
  /** Enters the text this many milliseconds after the last letter, too. */
  pause?: number;
};

/** A field for a text of the query in the address. */
export function Field({ query, text, enter, pause, onInput, ...others }: FieldProps) {
  const field = useRef<HTMLInputElement>(null);
  const latest = useRef({ text, enter });
  latest.current = { text, enter };
  const waiting = useRef<ReturnType<typeof setTimeout>>(undefined);
  const stop = () => {
    clearTimeout(waiting.current);
    waiting.current = undefined;
  };
  const take = () => {
    stop();
    const entered = field.current?.value.trim();
    if (entered !== undefined && entered !== latest.current.text) latest.current.enter(entered);
  };
  useLayoutEffect(() => {
    // A text that is still typed stays. The address lacks the spaces around one that was entered.
    if (field.current && !waiting.current && field.current.value.trim() !== text) field.current.value = text;
  }, [query]);
  useLayoutEffect(() => stop, []);
  return (
    <input
      ref={field}
      type="text"
      autocomplete="off"
      spellcheck={false}
      {...others}
      // Comes before a link is followed, since the field loses the focus first.
      onChange={take}
      onInput={(event) => {
        onInput?.(event);
        stop();
        if (pause !== undefined) waiting.current = setTimeout(take, pause);
      }}
    />
  );
}

/** Ties a field to the `Refusal` with its id. */
export const refused = (id: string, error: unknown) => ({
  "aria-describedby": `problem-${id}`,
  "aria-invalid": error === undefined ? undefined : ("true" as const),
});

/** Why the text of a field is not taken. */
export const Refusal = ({ of, error }: { of: string; error: unknown }) => (
  <div id={`problem-${of}`}>{error !== undefined && <Failure error={error} />}</div>
);

import type { ComponentProps } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { useLoaded, useSite } from "../model/hooks.ts";
import { minutes, nameOfState } from "../model/words.ts";
import { PlainButton } from "./text.tsx";
import { Failure, Loading } from "./view.tsx";

type FieldProps = ComponentProps<"input"> & {
  query: URLSearchParams;
  /** The field's text after the query has changed. */
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

interface PickerProps {
  id: string;
  label: string;
  choices: readonly (readonly [value: string, text: string])[];
  /** On the button. */
  verb: string;
  pick: (value: string) => void;
}

/** A list to choose from, and a button that takes the choice. */
export function Picker({ id, label, choices, verb, pick }: PickerProps) {
  const list = useRef<HTMLSelectElement>(null);
  const submit = (event: Event) => {
    event.preventDefault();
    if (list.current) pick(list.current.value);
  };
  return (
    <form class="row tight picker" onSubmit={submit}>
      <label for={id}>{label}</label>
      <select ref={list} id={id}>
        {choices.map(([value, text]) => (
          <option key={value} value={value}>
            {text}
          </option>
        ))}
      </select>
      <button type="submit">{verb}</button>
    </form>
  );
}

interface AsOfProps {
  /** The snapshot's id or a time, where an earlier state is shown. */
  asOf: string | null;
  /** Shows another state; the present one if null. */
  go: (asOf: string | null) => void;
}

/** A choice of the earlier states. Where one of them is shown, it says which. */
export function AsOf({ asOf, go }: AsOfProps) {
  const { api } = useSite();
  const [opened, setOpened] = useState(false);
  const wanted = opened || asOf !== null;
  const states = useLoaded((signal) => (wanted ? api.snapshots(signal) : Promise.resolve([])), [wanted]);
  const state = states.value?.find(({ snapshotId }) => snapshotId === asOf);
  return (
    <div class="as-of">
      {asOf !== null && (
        <p class="state" role="note">
          <strong>An earlier state: </strong>
          {nameOfState(asOf)}
          {state && `, published ${minutes(state.publishedAt)}`}.{" "}
          <PlainButton onClick={() => go(null)}>Show the present one</PlainButton>
        </p>
      )}
      <details onToggle={({ currentTarget }) => currentTarget.open && setOpened(true)}>
        <summary>{asOf === null ? "As it was" : "Other states"}</summary>
        {wanted && (
          <Loading of={states} words="Asking which states there are…">
            {(all) => {
              const earlier = all.filter((each) => each.snapshotId !== asOf && each.supersededAt !== null);
              if (earlier.length === 0) return "No other earlier state can be read.";
              const choices = earlier.map(
                (each) => [each.snapshotId, `published ${minutes(each.publishedAt)}`] as const,
              );
              return <Picker id="as-of" label="State" verb="Show" pick={go} choices={choices} />;
            }}
          </Loading>
        )}
      </details>
    </div>
  );
}

import { useRef } from "preact/hooks";

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

import { useRef, useState } from "preact/hooks";
import type { Api } from "../model/api.ts";
import { useLoaded, useSite } from "../model/hooks.ts";
import { minutes, nameOfState } from "../model/words.ts";
import { Loading } from "./failure.tsx";
import { PlainButton } from "./text.tsx";

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
  const shown = states.value?.find(({ snapshotId }) => snapshotId === asOf);
  return (
    <div class="as-of">
      {asOf !== null && (
        <p class="state" role="note">
          <strong>An earlier state: </strong>
          {nameOfState(asOf)}
          {shown && `, published ${minutes(shown.publishedAt)}`}.{" "}
          <PlainButton onClick={() => go(null)}>Show the present one</PlainButton>
        </p>
      )}
      <details onToggle={({ currentTarget }) => currentTarget.open && setOpened(true)}>
        <summary>{asOf === null ? "As it was" : "Other states"}</summary>
        {wanted && (
          <Loading of={states} words="Asking which states there are…">
            {(all) => <Chooser states={all.filter(({ snapshotId }) => snapshotId !== asOf)} go={go} />}
          </Loading>
        )}
      </details>
    </div>
  );
}

interface ChooserProps {
  states: Awaited<ReturnType<Api["snapshots"]>>;
  go: (asOf: string) => void;
}

function Chooser({ states, go }: ChooserProps) {
  const choice = useRef<HTMLSelectElement>(null);
  const earlier = states.filter(({ supersededAt }) => supersededAt !== null);
  if (earlier.length === 0) return <>No other earlier state can be read.</>;
  const show = (event: Event) => {
    event.preventDefault();
    if (choice.current) go(choice.current.value);
  };
  return (
    <form class="row tight picker" onSubmit={show}>
      <label for="as-of">State</label>
      <select ref={choice} id="as-of">
        {earlier.map(({ snapshotId, publishedAt }) => (
          <option key={snapshotId} value={snapshotId}>
            published {minutes(publishedAt)}
          </option>
        ))}
      </select>
      <button type="submit">Show</button>
    </form>
  );
}

import { useState } from "preact/hooks";
import { useLoaded, useSite } from "../model/hooks.ts";
import { minutes, nameOfState } from "../model/words.ts";
import { Loading } from "./failure.tsx";
import { Picker, PlainButton } from "./text.tsx";

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

import { useState } from "preact/hooks";
import { nameOf } from "../../../../../schemas/names.ts";
import type { ScoreListEntry } from "../../../../../schemas/records.ts";
import { Curve } from "../../charts/curve.tsx";
import { Loading } from "../../components/failure.tsx";
import { peerAddress } from "../../model/statistics.ts";
import { useLoaded, useSite } from "../../model/store.ts";
import { counted } from "../../model/words.ts";
import { columns } from "./columns.tsx";

interface RowProps {
  entry: ScoreListEntry;
  scores: readonly ScoreListEntry[];
  most: number;
  keyed: boolean;
}

/** A protocol's row and, once it was opened, the row with its curve. */
export function Row({ entry, scores, most, keyed }: RowProps) {
  const [open, setOpen] = useState(false);
  const { slug } = entry;
  // On narrow screens CSS lays rows out as cards, which removes the implicit table roles. So they are stated here.
  return (
    <>
      <tr role="row">
        {columns.map(({ name, number, about, cell }, index) => {
          const shared = { class: number ? "number" : undefined, "data-name": name, "data-meaning": about };
          if (index > 0)
            return (
              <td key={name} role="cell" {...shared}>
                {cell(entry, most)}
              </td>
            );
          return (
            <th key={name} role="rowheader" scope="row" {...shared}>
              {keyed && (
                <button
                  type="button"
                  class="opener"
                  aria-expanded={open ? "true" : "false"}
                  aria-label={`Curve of ${nameOf(slug)}`}
                  onClick={() => setOpen(!open)}
                />
              )}
              {cell(entry, most)}
              <a
                class="compare"
                href={peerAddress(entry, scores)}
                title="Compare with the nearest BRI of its category"
              >
                <span class="unseen">Compare {nameOf(slug)}</span>
              </a>
            </th>
          );
        })}
      </tr>
      {open && (
        <tr role="row" class="curve">
          <td role="cell" colSpan={columns.length}>
            <CurveOf slug={slug} scores={scores} />
          </td>
        </tr>
      )}
    </>
  );
}

function CurveOf({ slug, scores }: { slug: string; scores: readonly ScoreListEntry[] }) {
  const { api } = useSite();
  const history = useLoaded((signal) => api.service.history(slug, { signal }), [slug]);
  return (
    <Loading of={history} words="Loading the curve…">
      {({ points }) => (
        <Curve
          points={points}
          scores={scores}
          name={`BRI of ${nameOf(slug)} over ${counted(points.length, "run")}`}
        />
      )}
    </Loading>
  );
}

import type { ScoreDimensions } from "../../../../../schemas/envelopes.ts";
import { meanings } from "../../../../../schemas/meanings.ts";
import type { ProtocolScore } from "../../../../../schemas/records.ts";
import { Bar, Diverging, Scored } from "../../charts/bar.tsx";
import { DimensionLink, Term } from "../../components/meaning.tsx";
import { Change } from "../../components/text.tsx";

interface DimensionTableProps {
  record: ProtocolScore;
  /** The change of each score in seven days, where that is known. */
  moves: ScoreDimensions["dimensions"] | undefined;
}

export function DimensionTable({ record, moves }: DimensionTableProps) {
  const moved = new Map(moves?.map((move) => [`${move.key}`, move]));
  const most = Math.max(5, ...(moves ?? []).map(({ change7d }) => Math.abs(change7d)));
  return (
    <>
      <h2 id="dimensions">Twelve dimensions</h2>
      <table class="dimensions">
        <caption class="quiet">{meanings.protocolDimension.meaning}</caption>
        <thead>
          <tr>
            <th scope="col">Dimension</th>
            <th scope="col" class="number">
              <Term about="protocolDimension">Score</Term>
            </th>
            {moves && (
              <>
                <th scope="col" class="number">
                  <Term about="change7d">7 days</Term>
                </th>
                <th scope="col" class="number">
                  <Term about="percentile">Percentile</Term>
                </th>
              </>
            )}
          </tr>
        </thead>
        <tbody>
          {Object.entries(record.dimensions).map(([key, score]) => {
            const move = moved.get(key);
            return (
              <tr key={key}>
                <th scope="row">
                  <DimensionLink name={key} />
                </th>
                <td class="number" data-meaning="protocolDimension">
                  <Scored value={score} />
                </td>
                {move && (
                  <>
                    <td class="number" data-meaning="change7d">
                      <span class="moved">
                        <Diverging value={move.change7d} most={most} />
                        <Change value={move.change7d} />
                      </span>
                    </td>
                    <td class="number" data-meaning="percentile">
                      <span class="score">
                        <Bar value={0} max={100} mark={move.percentile} />
                        <b>{move.percentile}</b>
                      </span>
                    </td>
                  </>
                )}
              </tr>
            );
          })}
        </tbody>
      </table>
    </>
  );
}

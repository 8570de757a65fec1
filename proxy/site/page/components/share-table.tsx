import { type Estimate, wilson } from "../model/statistics.ts";
import { grouped, percents } from "../model/words.ts";
import { Scrolls } from "./text.tsx";

interface ShareTableProps {
  title: string;
  /** The names of the groups. */
  names: readonly string[];
  /** The name of each series, and its estimate for each group. */
  series: readonly (readonly [name: string, estimates: readonly Estimate[]])[];
}

export const ShareTable = ({ title, names, series }: ShareTableProps) => (
  <Scrolls label={`${title}, as a table`}>
    <table class="plain-table">
      <thead>
        <tr>
          {["Group", "Formula", "Disputed", "95 % interval", "n"].map((text) => (
            <th key={text} scope="col">
              {text}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {names.flatMap((name, index) =>
          series.map(([formula, estimates]) => {
            const estimate = estimates[index] ?? wilson(0, 0);
            const [share, low, high] = percents(estimate);
            return (
              <tr key={`${name} ${formula}`}>
                <th scope="row">{name}</th>
                <td>{formula}</td>
                <td class="number">{estimate.n ? share : "–"}</td>
                <td class="number">{estimate.n ? `${low} to ${high}` : "–"}</td>
                <td class="number">{grouped(estimate.n)}</td>
              </tr>
            );
          }),
        )}
      </tbody>
    </table>
  </Scrolls>
);

import { Fragment } from "preact";
import type { MarketDimension } from "../../../../../schemas/records.ts";
import { Bar } from "../../charts/bar.tsx";
import { DimensionLink, Term } from "../../components/meaning.tsx";
import { OutsideLink } from "../../components/text.tsx";
import { counted, grouped, spoken, stepOf } from "../../model/words.ts";

/** How many pieces of evidence are shown at once; a market may have hundreds. */
const few = 5;

export function Signal({ dimension }: { dimension: MarketDimension }) {
  const { key, name, score, weight, description, evidence, references } = dimension;
  const { baseline, raises, lowers } = dimension.computation;
  return (
    <li>
      <h3 dir="auto">
        <DimensionLink name={key}>{name}</DimensionLink>
      </h3>
      <p class={`score tier-${stepOf(score / 100)}`}>
        <Bar value={score} max={100} />
        <span>
          <Term about="marketDimension">Risk</Term> <b>{score}</b>
        </span>
        <span class="quiet">
          <Term about="weight">Weight</Term> {weight}
        </span>
      </p>
      <p dir="auto">{description}</p>
      {evidence.length > 0 && (
        <>
          <h4>{counted(evidence.length, "piece", "pieces")} of evidence</h4>
          <EvidenceList pieces={evidence.slice(0, few)} />
          {evidence.length > few && (
            <details>
              <summary>{grouped(evidence.length - few)} more</summary>
              <EvidenceList pieces={evidence.slice(few)} />
            </details>
          )}
        </>
      )}
      {references.length > 0 && (
        <>
          <h4>References</h4>
          <ul>
            {references.map((reference, index) => (
              <li key={index}>
                <Anything value={reference} />
              </li>
            ))}
          </ul>
        </>
      )}
      <h4>
        <Term about="computation">Computation</Term>
      </h4>
      <p class="quiet">
        Baseline {baseline}
        {raises.length > 0 && (
          <>
            {" "}
            · raised by <Anything value={raises} />
          </>
        )}
        {lowers.length > 0 && (
          <>
            {" "}
            · lowered by <Anything value={lowers} />
          </>
        )}
      </p>
    </li>
  );
}

/** The texts were written by others: `bdi` keeps their direction from spreading to the words around them. */
const EvidenceList = ({ pieces }: { pieces: MarketDimension["evidence"] }) => (
  <ul>
    {pieces.map(({ type, label, pattern, reference }, index) => (
      <li key={index}>
        <bdi>{label}</bdi>
        <span class="quiet">
          {" "}
          · <bdi>{spoken(type)}</bdi> · <bdi>{spoken(pattern)}</bdi> ·{" "}
        </span>
        <OutsideLink address={reference.url}>{reference.label}</OutsideLink>
        <span class="quiet">
          {" "}
          (<bdi>{reference.kind}</bdi>)
        </span>
      </li>
    ))}
  </ul>
);

/** Any JSON value as text, with web addresses as links. */
function Anything({ value }: { value: unknown }) {
  if (typeof value === "string") {
    if (/^https?:\/\//i.test(value)) return <OutsideLink address={value} />;
    return <bdi>{/^[a-z\d_]+$/.test(value) ? spoken(value) : value}</bdi>;
  }
  if (typeof value !== "object" || value === null) return <>{`${value}`}</>;
  const isList = Array.isArray(value);
  return (
    <>
      {Object.entries(value).map(([name, member], index) => (
        <Fragment key={name}>
          {index > 0 && (isList ? "; " : ", ")}
          {!isList && (
            <>
              <bdi>{spoken(name)}</bdi>:{" "}
            </>
          )}
          <Anything value={member} />
        </Fragment>
      ))}
    </>
  );
}

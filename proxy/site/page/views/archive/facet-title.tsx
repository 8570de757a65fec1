import { dimensions } from "../../model/filters.ts";
import { spoken } from "../../model/words.ts";
import { DimensionLink, type Meaning, Term } from "../../parts/meaning.tsx";

const abouts: Record<string, Meaning> = { tier: "tier", disputed: "disputed", composite: "composite" };

export function FacetTitle({ facet }: { facet: string }) {
  const about = abouts[facet];
  const title = facet === "month" ? "Resolved" : spoken(facet);
  if (dimensions.includes(facet))
    return (
      <h3>
        <DimensionLink name={facet} />
      </h3>
    );
  return <h3>{about ? <Term about={about}>{title}</Term> : title}</h3>;
}

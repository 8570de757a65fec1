import { labelOf, valueWords } from "../model/filters.ts";
import { spoken } from "../model/words.ts";
import { nameOfState } from "./as-of.tsx";

/** A filter in words. Texts of others keep their own direction. */
export function FilterWords({ name, value }: { name: string; value: string }) {
  const own = <bdi>{value}</bdi>;
  const [, end, field] = /^(min|max)_(.*)$/.exec(name) ?? [];
  if (field)
    return (
      <>
        {spoken(field)} {end === "min" ? "≥" : "≤"} {own}
      </>
    );
  if (name === "q") return <>“{own}”</>;
  if (name === "disputed") return <>{valueWords(name, value)}</>;
  if (name === "asOf") return <>As of: {nameOfState(value)}</>;
  if (name === "tier") return <>Tier: {value.replaceAll(",", " or ")}</>;
  const label =
    name === "from" || name === "to" ? `Resolved ${name === "to" ? "up to" : name}` : `${labelOf(name)}:`;
  return (
    <>
      {label} {own}
    </>
  );
}

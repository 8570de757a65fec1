import { archiveAddress, changed, filtersOf, sides } from "../../model/filters.ts";
import { Failure } from "../../parts/failure.tsx";
import { Reliability } from "../reliability/reliability.tsx";
import type { useAnswers } from "./answers.ts";
import { Files } from "./files.tsx";
import { Markets } from "./markets.tsx";

export const Tabs = ({ query }: { query: URLSearchParams }) => (
  <nav class="tabs" aria-label="What is shown">
    {Object.entries(sides).map(([value, text]) => (
      <a
        key={value}
        href={archiveAddress(changed(query, { show: value }))}
        aria-current={value === (query.get("show") ?? "") ? "true" : undefined}
        data-key={`show ${value}`}
      >
        {text}
      </a>
    ))}
  </nav>
);

interface SideContentProps {
  side: NonNullable<ReturnType<typeof useAnswers>["shown"]["side"]>;
  again: () => void;
}

export function SideContent({ side, again }: SideContentProps) {
  const { query } = side;
  const filters = filtersOf(query);
  if (side.kind === "failed") return <Failure error={side.error} again={again} />;
  if (side.kind === "file") return <Files filters={filters} asOf={side.asOf} total={side.total} />;
  return (
    <div class={side.isRecomputed ? "recomputed" : ""}>
      {side.kind === "list" ? (
        <Markets page={side.page} query={query} />
      ) : (
        <Reliability {...{ query, filters, counts: side.counts }} />
      )}
    </div>
  );
}

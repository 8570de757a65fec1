import { archiveAddress, changed, filtersOf } from "../../model/filters.ts";
import { FilterWords } from "../../parts/filter-words.tsx";

export function Chosen({ query }: { query: URLSearchParams }) {
  const filters = [...filtersOf(query)];
  return (
    <ul class="chosen" aria-label="Filters in effect">
      {filters.map(([name, value]) => (
        <li key={name}>
          <a href={archiveAddress(changed(query, { [name]: null }))} data-key={`remove ${name}`}>
            <FilterWords name={name} value={value} />
            <span aria-hidden="true"> ×</span>
            <span class="unseen"> (take away)</span>
          </a>
        </li>
      ))}
      {filters.length > 1 && (
        <li>
          <a href="#/archive">Clear all</a>
        </li>
      )}
    </ul>
  );
}

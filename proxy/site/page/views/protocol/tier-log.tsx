import { Loading } from "../../components/failure.tsx";
import { Moment, Tier } from "../../components/text.tsx";
import { useLoaded, useSite } from "../../model/store.ts";
import { minutes } from "../../model/words.ts";

/** The changes of a protocol's tier, newest first, where they are published. */
export function TierLog({ slug }: { slug: string }) {
  const { api } = useSite();
  const tiers = useLoaded((signal) => api.tiers(signal), []);
  return (
    <section aria-labelledby="tiers">
      <h2 id="tiers">Changes of tier</h2>
      <Loading of={tiers} words="Loading the changes…">
        {({ since, changes }) => {
          const own = changes.filter((each) => each.slug === slug);
          return (
            <>
              <p class="quiet">
                {own.length > 0 ? "" : "None. "}
                The log has the changes of at most 30 days, the newest 500 of all protocols; it began{" "}
                {minutes(since)}.
              </p>
              <ol class="moves">
                {own.map(({ from, to, bri, at }) => (
                  <li key={at}>
                    <Moment iso={at} />: <Tier name={from} /> → <Tier name={to} />, BRI {bri}
                  </li>
                ))}
              </ol>
            </>
          );
        }}
      </Loading>
    </section>
  );
}

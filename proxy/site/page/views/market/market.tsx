import type { ComponentChildren } from "preact";
import { marketAddress } from "../../model/filters.ts";
import { go } from "../../model/router.ts";
import { useLoaded, useSite, useStored, useTitle } from "../../model/store.ts";
import { AsOf } from "../../parts/as-of.tsx";
import { Closed } from "../../parts/closed.tsx";
import { Loading } from "../../parts/failure.tsx";
import { Details } from "./details.tsx";
import { Proof } from "./proof.tsx";

interface MarketProps {
  id: string;
  /** The snapshot's id or a time, where an earlier state is shown. */
  asOf: string | null;
}

/** A market's own page: its evidence, how its score came about, and the proof that it is in the archive. */
export function Market(props: MarketProps) {
  const plan = useStored((state) => state.plan);
  useTitle("Market");
  if (plan === "aegis") return <OpenMarket {...props} />;
  return (
    <Page question="Market">
      <Closed subject="A market’s page" />
    </Page>
  );
}

function OpenMarket({ id, asOf }: MarketProps) {
  const { api } = useSite();
  const loaded = useLoaded(
    async (signal) => {
      const snapshot = asOf ?? (await api.pin()).snapshotId;
      return { snapshot, market: await api.service.market(id, { signal, asOf: snapshot }) };
    },
    [id, asOf],
  );
  return (
    <Page question={loaded.value?.market.question ?? "Market"}>
      <AsOf asOf={asOf} go={(state) => go(marketAddress(id, state))} />
      <Loading of={loaded} words="Loading the market…">
        {({ market, snapshot }) => (
          <>
            <Details market={market} />
            <Proof market={market} snapshot={snapshot} asOf={asOf} />
          </>
        )}
      </Loading>
    </Page>
  );
}

function Page({ question, children }: { question: string; children: ComponentChildren }) {
  const archive = useStored((state) => state.last.archive);
  return (
    <article>
      <p class="path">
        <a href={archive}>All markets</a>
      </p>
      <h1 class="ask" dir="auto">
        {question}
      </h1>
      {children}
    </article>
  );
}

import { useEffect, useRef, useState } from "preact/hooks";
import type { HistoricalMarket } from "../../../../../schemas/records.ts";
import { type MarketProof, verifyProof } from "../../../client/client.ts";
import { Failure } from "../../components/failure.tsx";
import { Copyable } from "../../components/text.tsx";
import { Section } from "../../components/view.tsx";
import { useSite } from "../../model/hooks.ts";
import { counted, grouped } from "../../model/words.ts";

interface ProofProps {
  market: HistoricalMarket;
  /** The id or time of the snapshot that the market was read from. */
  snapshot: string;
  /** The one in the address. */
  asOf: string | null;
}

interface Verdict {
  proof?: MarketProof;
  /** The key that was entered, if any. */
  publisher?: string;
  error?: unknown;
}

/** Verifies in this browser that a market is in the archive, when the reader wants that. */
export function Proof({ market, snapshot, asOf }: ProofProps) {
  const { api } = useSite();
  const { id } = market;
  const key = useRef<HTMLInputElement>(null);
  const ending = useRef(new AbortController());
  const [verdict, setVerdict] = useState<Verdict>({});
  const [busy, setBusy] = useState(false);
  useEffect(() => () => ending.current.abort(), []);
  const verify = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    const { signal } = ending.current;
    try {
      const publisher = key.current?.value.trim() ?? "";
      const proof = await api.service.proof(id, { signal, asOf: snapshot });
      const proven = await verifyProof(proof, { id, asOf: snapshot, ...(publisher && { key: publisher }) });
      if (JSON.stringify(proven) !== JSON.stringify(market))
        throw new Error("The archive has changed since this page was loaded. Reload it.");
      setVerdict({ proof, publisher });
    } catch (error) {
      if (signal.aborted) return;
      setVerdict({
        error: crypto.subtle ? error : new Error("Browsers verify on secure origins only: use https."),
      });
    }
    setBusy(false);
  };
  const path = `${api.base}/markets/${id}/proof${asOf ? `?${new URLSearchParams({ asOf })}` : ""}`;
  return (
    <Section id="proof" title="Proof">
      <p class="quiet">
        The page asks for the proof, which takes a request, and hashes its way from this market’s text to the
        id of the snapshot. With the publisher’s public key it also checks who signed that.
      </p>
      <form class="measure" onSubmit={verify} noValidate>
        <label for="publisher">Publisher’s key, if you have it</label>
        <div class="joined">
          <input
            ref={key}
            id="publisher"
            type="text"
            autocomplete="off"
            spellcheck={false}
            placeholder="NAME+ID+BASE64"
          />
          <button type="submit" disabled={busy}>
            Verify in this browser
          </button>
        </div>
      </form>
      <div role="status">
        {verdict.error !== undefined && <Failure error={verdict.error} />}
        {verdict.proof && <Chain proof={verdict.proof} publisher={verdict.publisher ?? ""} />}
      </div>
      <Copyable name="Request of the proof" text={`curl -sS -H "x-api-key: $KEY" "${path}"`} />
    </Section>
  );
}

function Chain({ proof: { market, proof, snapshotId, commit, checkpoint }, publisher }: ChainProps) {
  const { page, segment, archive } = proof;
  const signature = publisher
    ? `which the publisher signed as commit ${grouped(commit)}.`
    : `which is commit ${grouped(commit)}. ` +
      (checkpoint === null ? "Nobody signed it." : "It is signed; enter the publisher’s key to check that.");
  return (
    <>
      <p class="proven">
        <strong>✓ Verified.</strong> What you see is what the snapshot holds.
      </p>
      <ol class="chain">
        <li>This market’s text, {counted(new TextEncoder().encode(market).length, "byte")}</li>
        <li>
          is number {grouped(page.index + 1)} of {grouped(page.size)} in its page,
        </li>
        <li>
          which is number {grouped(segment.index + 1)} of {grouped(segment.size)} in its segment,
        </li>
        <li>
          which is number {grouped(archive.index + 1)} of {grouped(archive.size)} in the archive of{" "}
          {counted(archive.markets, "market")},
        </li>
        <li>
          which is part of snapshot <code>{snapshotId}</code>,
        </li>
        <li>{signature}</li>
      </ol>
    </>
  );
}

interface ChainProps {
  proof: MarketProof;
  publisher: string;
}

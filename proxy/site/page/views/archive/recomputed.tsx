import type { ComponentChildren } from "preact";
import type { Recomputed as Answer } from "../../../client/client.ts";
import { Facts } from "../../components/text.tsx";
import { useStored } from "../../model/store.ts";
import { counted, grouped, minutes, size } from "../../model/words.ts";

/** What was fetched, who vouches for it, what was checked, and what was not. */
export function Recomputed({ first, children }: { first: Answer; children: ComponentChildren }) {
  const { snapshotId, commit, vouched } = first;
  const { by, checkpoint, entry, publishedAt } = vouched;
  const { bytes, requests } = useStored(({ fetched }) => fetched);
  return (
    <>
      <p role="status">
        <strong>✓ Recomputed. </strong>
        Totals, counts and charts with a ✓ were counted in this browser. Filters and brushes ask the service
        for none of them, only for the markets to list.
      </p>
      <div class="cards">
        <section>
          <Facts
            rows={[
              ["Fetched", `${size(bytes)} in ${counted(requests, "request")}`],
              ["Vouched for by", voucher(vouched)],
              ["Published", minutes(publishedAt)],
              [
                "Snapshot",
                <>
                  <code title={snapshotId}>{snapshotId.slice(0, 12)}</code>, commit {grouped(commit)}
                </>,
              ],
              ["Entry of the log", <code key="entry">{entry}</code>],
            ]}
          />
        </section>
        <section>
          <h2>What was checked</h2>
          <ul>
            <li>
              Every byte that was counted, also of what this browser had kept: by SHA-256, against the index
              root that the entry of the log names.
            </li>
            <li>
              That this entry is about this snapshot
              {checkpoint !== null &&
                `, and that the log ${checkpoint.origin} has it, of ${counted(checkpoint.size, "commit")}`}
              .
            </li>
            {by.length > 0 && <li>That it is what you trust, by {voucher(vouched)}.</li>}
            <li>
              That the markets listed are those that match, in order and none left out, by the hashes of their
              records.
            </li>
          </ul>
        </section>
        <section>
          <h2>What was not</h2>
          <ul>
            {by.length === 0 && (
              <li>
                {checkpoint === null
                  ? "Who published it: nobody signed the log."
                  : "Who published it: the log is signed, but you entered no key, so its signatures were not checked " +
                    "against a key that does not come from this service."}
              </li>
            )}
            {checkpoint !== null && commit < checkpoint.size && (
              <li>
                Whether this snapshot still counts: it is commit {grouped(commit)}, and the log goes on to
                commit {grouped(checkpoint.size)}.
              </li>
            )}
            <li>
              This page: its code comes from the service that it checks. A dishonest service could send code
              that says all this too. <code>npm run ask</code> and the client in a program of your own do not
              depend on it, with a key that you have from elsewhere.
            </li>
            <li>
              In a search for words, which characters belong to a word: that depends on the version of
              Unicode, and a browser does not tell its own.
            </li>
            <li>
              Whether the index says of a market what its record says: <code>npm run snapshot -- verify</code>{" "}
              and <code>npm run sync</code> check that of all records.
            </li>
          </ul>
        </section>
      </div>
      <p class="pages">{children}</p>
    </>
  );
}

/** Who says that the entry of the log is the publisher's. */
function voucher({ by, checkpoint }: Answer["vouched"]) {
  if (by.includes("policy"))
    return `a log’s key of your policy, and ${counted(checkpoint?.cosigners ?? 0, "witness", "witnesses")} of it`;
  if (by.includes("key")) return "the signature of the key that you entered";
  if (by.includes("entry")) return "the hash that you entered";
  return "nobody but the service";
}

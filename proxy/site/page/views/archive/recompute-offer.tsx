import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";
import type { Trust } from "../../../client/client.ts";
import { Failure } from "../../components/failure.tsx";
import { useSite } from "../../model/store.ts";
import { counted, size } from "../../model/words.ts";

/** Bytes per market: of all columns of the index, and of the words of the questions. */
const [columnBytes, wordBytes] = [13.6, 8];
/** Bytes of the index of an archive with hardly any markets. */
const leastBytes = 10_000;
/** How many bytes one request of the quota pays for. */
const unitBytes = 2 ** 18;

/** What recomputing does, and what it takes. */
export function Offer() {
  const { api } = useSite();
  const markets = api.shown?.counts.markets ?? 0;
  const bytes = leastBytes + columnBytes * markets;
  const takes: ComponentChildren[] = [
    `It takes about ${size(bytes)} and ${counted(3 + Math.ceil(bytes / unitBytes), "request")} of the day’s quota. `,
    api.own && "Of that, only what changed since the snapshot before is fetched. ",
    `The first search for words takes about ${size(leastBytes + wordBytes * markets)} more, and each list of ` +
      "markets a request more.",
  ];
  return (
    <>
      <p>
        This page can count for itself. It fetches the columns of the archive’s index, checks every byte of
        them against the root that the log’s entry of this snapshot names, and from then on evaluates filters
        and brushes in this browser, without asking the service for a number.
      </p>
      <p>{takes}</p>
    </>
  );
}

interface TrustFormProps {
  text: string;
  type: (text: string) => void;
  start: (trust: Trust) => void;
}

/** Asks whom the reader trusts, and begins. */
export function TrustForm({ text, type, start }: TrustFormProps) {
  const [isWrong, setWrong] = useState(false);
  const field = useRef<HTMLTextAreaElement>(null);
  const submit = (event: Event) => {
    event.preventDefault();
    const trust = trustIn(text);
    setWrong(!trust);
    if (trust) start(trust);
    else field.current?.focus();
  };
  return (
    <form class="verify" onSubmit={submit} noValidate>
      <label for="trust">Publisher’s key or policy, or the hash of the log’s entry, if you have it</label>
      <div class="joined">
        <textarea
          ref={field}
          id="trust"
          rows={1}
          autocomplete="off"
          spellcheck={false}
          placeholder="NAME+ID+BASE64"
          aria-describedby="trust-problem"
          aria-invalid={isWrong ? "true" : undefined}
          value={text}
          onInput={({ currentTarget }) => type(currentTarget.value)}
        />
        <button type="submit">Fetch and recompute</button>
      </div>
      <div id="trust-problem">{isWrong && <Failure error={noTrust} />}</div>
    </form>
  );
}

const noTrust = new Error(
  "A key is NAME+ID+BASE64, a policy is the text of its file, and a hash has 64 hexadecimal digits.",
);

/** Parses what a reader entered to check against; undefined when it is no digest of an entry, key or policy. */
function trustIn(text: string): Trust | undefined {
  const entered = text.trim();
  if (entered === "") return {};
  if (/^[0-9a-f]{64}$/.test(entered)) return { entry: entered };
  return /^[^\s+]+\+[0-9a-f]{8}\+\S+$/.test(entered) || /\s/.test(entered) ? { key: entered } : undefined;
}

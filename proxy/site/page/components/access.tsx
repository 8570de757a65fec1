import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { contactText } from "../../../../schemas/contact.ts";
import type { Usage } from "../../client/client.ts";
import { useSite, useStored } from "../model/hooks.ts";
import { grouped } from "../model/words.ts";
import { Refusal, refused } from "./field.tsx";
import { OutsideLink, PlainButton } from "./text.tsx";

export const planNames: Record<Usage["plan"], string> = {
  free: "Free",
  developer: "Developer",
  aegis: "Aegis",
};

/** Says where a key comes from, if the operator names a place. */
export function AskForKey() {
  const { contact } = useSite().api;
  if (contact === undefined) return null;
  const isMailbox = contact.startsWith("mailto:");
  return (
    <p class="contact">
      Ask for a key:{" "}
      {isMailbox ? <a href={contact}>{contactText(contact)}</a> : <OutsideLink address={contact} />}
    </p>
  );
}

/** The plan and its quota, and a form to enter a key or a button to forget it. */
export function Access() {
  const { api } = useSite();
  if (api.live) return <Standing />;
  return (
    <p class="quiet">
      This copy of the site has only files. It shows the scores; history and archive need the service.
    </p>
  );
}

function Standing() {
  const { api } = useSite();
  const plan = useStored((state) => state.plan);
  const quota = useStored((state) => state.quota);
  const keyed = useStored((state) => state.keyed);
  const forget = useRef<HTMLDivElement>(null);
  const summary = useRef<HTMLElement>(null);
  // The button that was pressed goes away, so the focus must move.
  const before = useRef(keyed);
  useLayoutEffect(() => {
    if (before.current !== keyed)
      (keyed ? forget.current?.querySelector("button") : summary.current)?.focus();
    before.current = keyed;
  }, [keyed]);
  return (
    <div class="row access" ref={forget}>
      <p class="quiet standing">
        <strong>{planNames[plan]} plan</strong>
        {quota && (
          <>
            {" "}
            · {grouped(quota.remaining)} of {grouped(quota.limit)} <a href="#/meanings/requests">requests</a>{" "}
            left today
          </>
        )}
      </p>
      {keyed ? (
        <PlainButton onClick={() => api.forgetKey()}>Forget key</PlainButton>
      ) : (
        <KeyEntry summary={summary} />
      )}
    </div>
  );
}

function KeyEntry({ summary }: { summary: { current: HTMLElement | null } }) {
  const { api, store } = useSite();
  const open = useStored((state) => state.asksForKey);
  const field = useRef<HTMLInputElement>(null);
  const [error, refuse] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  useLayoutEffect(() => {
    if (open || error) field.current?.focus();
  }, [open, error]);
  const submit = async (event: Event) => {
    event.preventDefault();
    const key = field.current?.value.trim() ?? "";
    if (field.current) field.current.value = "";
    refuse(undefined);
    if (key === "") return refuse(new Error("Enter a key first."));
    setBusy(true);
    try {
      await api.useKey(key);
      store.set({ asksForKey: false });
    } catch (refused) {
      refuse(refused);
      setBusy(false);
    }
  };
  return (
    <details
      class="key"
      open={open}
      onToggle={({ currentTarget }) => {
        // The event comes late, so it may be about an earlier state.
        if (currentTarget.open !== store.state.asksForKey) store.set({ asksForKey: currentTarget.open });
      }}
    >
      <summary ref={summary}>Enter an API key</summary>
      <form id="key-form" class="panel" autocomplete="off" noValidate onSubmit={submit}>
        <label for="key">API key</label>
        <div class="joined">
          <input
            ref={field}
            id="key"
            type="password"
            autocomplete="off"
            autocapitalize="off"
            spellcheck={false}
            required
            {...refused("key", error)}
            aria-describedby="problem-key key-note"
          />
          <button type="submit" disabled={busy}>
            Use key
          </button>
        </div>
        <p id="key-note" class="quiet">
          Kept in this page’s memory until you leave it, and stored nowhere.
        </p>
        <AskForKey />
        <Refusal of="key" error={error} />
      </form>
    </details>
  );
}

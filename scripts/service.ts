import { readFile } from "node:fs/promises";
import { ApiError, IntegrityError } from "../proxy/site/client/client.ts";
import { Fault } from "../schemas/errors.ts";
import { isWellFormedKey } from "../snapshots/keys/keys.ts";
import { messageOf } from "../snapshots/store/errors.ts";
import { layout } from "../snapshots/store/layout.ts";
import { readAll } from "../snapshots/store/storage.ts";
import { believedPolicy, verifierText } from "../snapshots/trust/notes/note-keys.ts";
import { type Shell, usageError } from "./cli.ts";
import { text, type ValuesOf } from "./program.ts";

export const serviceOptions = {
  url: text("BASE", "address of the service", { required: true }),
  "key-file": text("FILE", "holds an API key of the Aegis plan", { required: true }),
  "trusted-key": text("FILE", "public keys, one a line; take up only what one of them signed"),
  "trust-policy": text(
    "FILE",
    "a policy of logs, witnesses and quorum (c2sp.org/tlog-policy); take up only what satisfies it",
  ),
} as const;

/** In the result `trusted` is the text of a policy, or public keys; undefined without both. */
export async function readService(shell: Shell, { url, ...values }: ValuesOf<typeof serviceOptions>) {
  if (!/^https?:$/.test(URL.canParse(url) ? new URL(url).protocol : ""))
    throw usageError(`--url must be an address with http or https, not ${JSON.stringify(url)}`);
  const key = await keyIn(shell, values["key-file"]);
  const [policy, keys] = [values["trust-policy"], values["trusted-key"]].map((name) =>
    name ? shell.path(name) : undefined,
  );
  const believed = await believedPolicy({ policy, keys });
  const trusted = policy
    ? await readFile(policy, "utf8")
    : believed?.logs.map(({ key }) => verifierText(key));
  return { url, key, trusted };
}

async function keyIn(shell: Shell, file: string): Promise<string> {
  const text = await readFile(shell.path(file), "utf8").catch((error: unknown) => {
    throw new Fault("KEY_REFUSED", `${file} cannot be read: ${messageOf(error)}`);
  });
  const key = text.trim();
  if (isWellFormedKey(key)) return key;
  throw new Fault(
    "KEY_REFUSED",
    `${file} holds no key: one is prs_live_ and 38 letters and digits, copied whole`,
  );
}

/** The error to report when a service refused or could not be asked: a wrong key is for the caller to mend. */
export function failureOf(error: unknown, url: string): unknown {
  if (!(error instanceof ApiError) || error instanceof IntegrityError) return error;
  if (error.status === 401 || error.status === 403) return new Fault("KEY_REFUSED", error.message);
  return new Fault("SERVICE_UNREACHABLE", `${url}: ${error.title}: ${reasonOf(error)}`, {
    cause: error,
  });
}

/** The reason for an error: its message, or that of its cause, such as the system's for a failed connection. */
function reasonOf(error: unknown): string {
  if (error instanceof AggregateError) return error.errors.map(reasonOf).join(", ");
  if (error instanceof Error && error.cause !== undefined) return reasonOf(error.cause);
  return messageOf(error);
}

const siteFile = layout.siteFile("api.json").slice(layout.publicTree.length);
const seconds = 5;

/** Says what is wrong when the address of a public tree lacks a file that every publish writes. */
export async function siteFaultAt(siteUrl: string): Promise<string | undefined> {
  const address = siteUrl + siteFile;
  const fault = await faultAt(address, /^\{.*"(?:api|site)":/s);
  return (
    fault &&
    `${address} ${fault}, so links, badges and frames lead nowhere. With the CDNs of .github/deploy, which serve the ` +
      "public tree below /public/, --site-url is https://HOST/public."
  );
}

/** Says what is wrong with the answer of an address that should match; undefined when nothing is. */
export async function faultAt(address: string, expected: RegExp): Promise<string | undefined> {
  try {
    const answer = await fetch(address, { signal: AbortSignal.timeout(seconds * 1000) });
    const body = await readAll((answer.body ?? []) as AsyncIterable<Uint8Array>, 65_536, () => {
      throw new Error("it is too long");
    });
    if (!answer.ok) return `answers ${answer.status}`;
    return expected.test(String(body)) ? undefined : "is another file";
  } catch (error) {
    return `cannot be had from here (${reasonOf(error)})`;
  }
}

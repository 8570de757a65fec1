import { readFile } from "node:fs/promises";
import { ApiError, IntegrityError } from "../proxy/site/client/client.ts";
import { Fault } from "../schemas/errors.ts";
import { isWellFormedKey } from "../snapshots/keys/key-format.ts";
import { messageOf } from "../snapshots/store/errors.ts";
import { verifierText } from "../snapshots/trust/notes/note-keys.ts";
import { believedPolicy } from "../snapshots/trust/witnesses/policy.ts";
import { requiredOption, usageError } from "./cli.ts";
import type { Shell } from "./shell.ts";

// Shared by the commands of partners, `sync` and `ask`, which ask a service.

/** The options that name a service, a key for it, and whom to trust. */
export const serviceOptions = {
  url: { type: "string", value: "BASE", required: true, does: "address of the service" },
  "key-file": { type: "string", value: "FILE", required: true, does: "holds an API key of the Aegis plan" },
  "trusted-key": {
    type: "string",
    value: "FILE",
    does: "public keys, one a line; take up only what one of them signed",
  },
  "trust-policy": {
    type: "string",
    value: "FILE",
    does: "a policy of logs, witnesses and quorum (c2sp.org/tlog-policy); take up only what satisfies it",
  },
} as const;

type ServiceValues = { [Name in keyof typeof serviceOptions]?: string | undefined };

/** `trusted` is the text of a policy, or public keys. */
export interface Service {
  url: string;
  key: string;
  trusted: string | string[] | undefined;
}

export async function readService(shell: Shell, values: ServiceValues): Promise<Service> {
  const url = requiredOption("url", values.url);
  if (!/^https?:$/.test(URL.canParse(url) ? new URL(url).protocol : ""))
    throw usageError(`--url must be an address with http or https, not ${JSON.stringify(url)}`);
  const key = await keyIn(shell, requiredOption("key-file", values["key-file"]));
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
export function reasonOf(error: unknown): string {
  if (error instanceof AggregateError) return error.errors.map(reasonOf).join(", ");
  if (error instanceof Error && error.cause !== undefined) return reasonOf(error.cause);
  return messageOf(error);
}

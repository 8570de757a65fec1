import { csv, ndjson } from "../../../schemas/media.ts";

/** Parameters that other services have, and what replaces them here. */
interface Hint {
  /** In lower case, without hyphens and underscores. */
  names: readonly string[];
  /** The hint is only for addresses that have this parameter. Without it, it is for all. */
  where?: string;
  hint: string;
}

const hints: readonly Hint[] = [
  {
    names: ["apikey", "xapikey", "key", "token", "accesstoken"],
    hint: "A key goes into a header, Authorization: Bearer KEY or x-api-key: KEY; addresses are logged on their way.",
  },
  {
    names: ["format", "output"],
    where: "pageSize",
    hint: `The header Accept chooses the form: application/json, ${ndjson} or ${csv}.`,
  },
  { names: ["offset", "start"], where: "page", hint: "page chooses a page, and cursor walks on from one." },
  { names: ["limit", "size", "count", "perpage"], where: "pageSize", hint: "pageSize sets how many come." },
  { names: ["pagesize", "size", "count", "perpage"], where: "limit", hint: "limit sets how many come." },
];

/** `known` are the parameters of the address. Undefined when there is no hint. */
export function hintFor(name: string, known: readonly string[]): string | undefined {
  const plain = name.toLowerCase().replace(/[-_]/g, "");
  const fits = ({ names, where }: Hint) => names.includes(plain) && (!where || known.includes(where));
  return hints.find(fits)?.hint;
}

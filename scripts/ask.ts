import { Client, type Recomputed, type Vouched } from "../proxy/site/client/client.ts";
import { facetLimit, facetNames } from "../schemas/filters.ts";
import { parseFacetNames, readFilter } from "../snapshots/read/fetched-index.ts";
import { counted } from "./cli.ts";
import { columns, command, jsonOption, number, type Program, runAsScript, text } from "./program.ts";
import { failureOf, readService, serviceOptions } from "./service.ts";

const ask = command({
  name: "",
  operand: "QUERY",
  does:
    "Counts the markets that match QUERY, which has filters as an address of the archive has them. The total and " +
    "the facets are computed here, on the parts of the archive's index that they take.",
  options: {
    ...serviceOptions,
    entry: text("HASH", "the SHA-256 of the log's entry that you know; in place of keys"),
    by: text("LIST", `counts also by these, separated by commas: ${facetNames.join(", ")}`),
    limit: number("the most values shown of each", { min: 1, max: facetLimit.max }, { default: "10" }),
    "as-of": text("T", "the snapshot to ask: its id, or a time", { otherwise: "the current one" }),
    ...jsonOption,
  },
  async run(values, query, shell) {
    const { url, key, trusted } = await readService(shell, values);
    const filters = readFilter(query) && Object.fromEntries(new URLSearchParams(query));
    const by = values.by === undefined ? [] : parseFacetNames(values.by);
    const trust = { key: trusted, entry: values.entry };
    const client = new Client({ url, key });
    const options = { filters, by, limit: values.limit, trust, asOf: values["as-of"] };
    const answer = await client.recompute(options).catch((error) => {
      throw failureOf(error, url);
    });
    shell.report(values.json, answer, linesOf(query, answer));
  },
});

function linesOf(query: string, answer: Recomputed): string[] {
  const { total, facets, snapshotId, commit, bytes, requests, vouched } = answer;
  const counts = Object.entries(facets).flatMap(([name, facet]) => {
    if (!facet) return [];
    const rows = facet.buckets.map((bucket: Bucket) => rowOf(bucket));
    if ("other" in facet && facet.other.count > 0) rows.push(rowOf({ value: "(others)", ...facet.other }));
    return ["", `by ${name}:`, ...columns(rows)];
  });
  return [
    `${counted(total, "market")}${query ? ` with ${query}` : ""}`,
    ...counts,
    "",
    `computed here from ${bytes.toLocaleString("en")} bytes in ${counted(requests, "request")}`,
    `snapshot ${snapshotId}, commit ${commit}, published ${vouched.publishedAt}`,
    `entry ${vouched.entry}`,
    voucherOf(vouched),
    ...vouched.unjudged.map((sentence) => `not judged: ${sentence}`),
  ];
}

type Bucket = { count: number; disputed: number } & ({ value: string } | { from: number; to: number });

function rowOf(bucket: Bucket): [string, string] {
  const name = "value" in bucket ? bucket.value : `${bucket.from} to ${bucket.to}`;
  return [name, `${bucket.count}, ${bucket.disputed} of them disputed`];
}

function voucherOf({ by, checkpoint }: Vouched): string {
  if (by.includes("key") || by.includes("policy")) {
    const { origin, size, cosigners } = checkpoint!;
    const witnesses = cosigners > 0 ? ` and ${counted(cosigners, "witness")}` : "";
    return `vouched for by ${origin}${witnesses}: they signed the log of ${counted(size, "commit")} with this entry`;
  }
  if (by.includes("entry")) return "vouched for by the hash of the entry that you gave";
  return "nobody vouches for it: give --trusted-key, --trust-policy or --entry; it only agrees with itself";
}

export const askProgram: Program = {
  call: "npm run ask --",
  commands: [ask],
  notes: `Put QUERY into quotation marks: 'category=Politics&min_composite=700'.
Exit code 2: the query, a file or the key is wrong; 5: the service cannot be asked; 6: what came does not follow from what
was signed, and no number is printed.`,
};

await runAsScript(askProgram, import.meta.filename);

/** One JSON text per line. */
export const ndjson = "application/x-ndjson";

export const parquet = "application/vnd.apache.parquet";

/** A table with a header line (RFC 4180). */
export const csv = "text/csv";

export const octets = "application/octet-stream";

/**
 * Forms of an answer by media type. A caller who names no parameters of a type, or only some, gets the first form that
 * has them.
 */
export const byMediaType = <Form extends { mediaTypes: readonly string[] }>(forms: readonly Form[]) =>
  new Map(forms.flatMap((form) => form.mediaTypes.map((type) => [type, form] as const)));

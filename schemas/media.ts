/** Media type of answers with one JSON text per line. */
export const ndjson = "application/x-ndjson";

/** Media type of the files of exports. */
export const parquet = "application/vnd.apache.parquet";

/** Media type of answers as a table with a header line (RFC 4180). */
export const csv = "text/csv";

/** Media type of bytes. */
export const octets = "application/octet-stream";

/** Forms of an answer by media type. Who names some of its parameters, or none, gets the first that has them. */
export const byMediaType = <Form extends { mediaTypes: readonly string[] }>(forms: readonly Form[]) =>
  new Map(forms.flatMap((form) => form.mediaTypes.map((type) => [type, form] as const)));

/** A file that the proxy serves to every caller alike. */
export interface StaticFile {
  /** Its path: that of a row of the endpoint table, with `:file` replaced by one of the row's `files`. */
  path: string;
  contentType: string;
  bytes: Buffer;
  /** Further headers. Their names must be in lower case, so that they replace the service's own. */
  headers?: Record<string, string>;
}

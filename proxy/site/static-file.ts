/** A file that is the same for every caller. */
export interface StaticFile {
  /** Its address: the path of a row of the endpoint table, `:file` being one of the row's `files`. */
  path: string;
  contentType: string;
  bytes: Buffer;
  /** Further headers; names in lower case, in which they replace the service's own. */
  headers?: Record<string, string>;
}

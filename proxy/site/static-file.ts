export interface StaticFile {
  /** A path of the endpoint table, with `:file` replaced by one of the row's `files`. */
  path: string;
  contentType: string;
  read: () => Buffer | Promise<Buffer>;
  /** Further headers. Their names must be in lower case, so that they replace the service's own. */
  headers?: Record<string, string>;
}

/**
 * The Content-Security-Policy of a page that loads scripts and styles from its own origin only. `scripts`, `images` and
 * `requests` are the sources that script-src, img-src and connect-src allow. A page may state it in a `meta` element.
 */
export function pagePolicy({
  scripts = "'self'",
  images,
  requests,
}: {
  scripts?: string;
  images: string;
  requests: string;
}): string {
  return [
    "default-src 'none'",
    `script-src ${scripts}`,
    "style-src 'self'",
    `connect-src ${requests}`,
    `img-src ${images}`,
    "base-uri 'none'",
    "form-action 'none'",
  ].join("; ");
}

/** The response header for a page with this policy. Browsers ignore `frame-ancestors` in a `meta` element. */
export function policyHeader(policy: string): Record<string, string> {
  return { "content-security-policy": `${policy}; frame-ancestors 'none'` };
}

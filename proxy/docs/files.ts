import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { endpoints } from "../../schemas/endpoints.ts";
import { describeApi } from "../../schemas/openapi/document.ts";
import type { StaticFile } from "../site/static-file.ts";

const own = (name: string) => readFileSync(new URL(name, import.meta.url));
const require = createRequire(import.meta.url);

// Everything from here, nothing written into the page itself; the icons of the style sheet are data.
const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

type FileName = (typeof endpoints.docsFile.files)[number];
const script = "text/javascript; charset=utf-8";
const style = "text/css; charset=utf-8";

const files: Record<FileName, Omit<StaticFile, "path">> = {
  "page.css": { contentType: style, bytes: own("page.css") },
  "start.js": { contentType: script, bytes: own("start.js") },
  "swagger-ui.css": {
    contentType: style,
    bytes: readFileSync(require.resolve("swagger-ui-dist/swagger-ui.css")),
  },
  "swagger-ui-bundle.js": {
    contentType: script,
    bytes: readFileSync(require.resolve("swagger-ui-dist/swagger-ui-bundle.js")),
  },
};

/** The API's description, the page that shows it, and all the page loads. */
export const docsFiles: readonly StaticFile[] = [
  {
    path: endpoints.openapi.path,
    contentType: "application/json",
    bytes: Buffer.from(JSON.stringify(describeApi())),
    // For tools that run in pages of other sites.
    headers: { "access-control-allow-origin": "*" },
  },
  {
    path: endpoints.docs.path,
    contentType: "text/html; charset=utf-8",
    bytes: own("index.html"),
    headers: { "content-security-policy": policy },
  },
  ...Object.entries(files).map(([name, file]) => ({
    path: endpoints.docsFile.path.replace(":file", name),
    ...file,
  })),
];

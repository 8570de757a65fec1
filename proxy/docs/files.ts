import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { endpoints } from "../../schemas/endpoints.ts";
import { describeApi } from "../../schemas/openapi/document.ts";
import type { Config } from "../config.ts";
import { pagePolicy, policyHeader, type StaticFile } from "../site/static-files.ts";

const require = createRequire(import.meta.url);
const swaggerUi = dirname(require.resolve("swagger-ui-dist/package.json"));

const readOwn = (name: string) => readFileSync(new URL(name, import.meta.url));
const fromSwaggerUi = (name: string) => readFileSync(join(swaggerUi, name));

type FileName = (typeof endpoints.docsFile.files)[number];
const script = "text/javascript; charset=utf-8";
const style = "text/css; charset=utf-8";

const files: Record<FileName, Omit<StaticFile, "path">> = {
  "page.css": { contentType: style, read: () => readOwn("page.css") },
  "start.js": { contentType: script, read: () => readOwn("start.js") },
  "swagger-ui.css": { contentType: style, read: () => fromSwaggerUi("swagger-ui.css") },
  "swagger-ui-bundle.js": { contentType: script, read: () => fromSwaggerUi("swagger-ui-bundle.js") },
};

/**
 * The OpenAPI description, the page that shows it, and every file the page loads. `apiUrl` is the service's own
 * address, where it is known, and `contact` is where to get a key.
 */
export const docsFiles = ({ apiUrl, contact }: Pick<Config, "apiUrl" | "contact"> = {}): StaticFile[] => [
  {
    path: endpoints.openapi.path,
    contentType: "application/json",
    read: () => Buffer.from(JSON.stringify(describeApi(endpoints, { apiUrl, contact }))),
  },
  {
    path: endpoints.docs.path,
    contentType: "text/html; charset=utf-8",
    read: () => readOwn("index.html"),
    // Swagger UI's style sheet holds its icons as data: URLs.
    headers: policyHeader(
      pagePolicy({ images: "'self' data:", requests: ["'self'", apiUrl?.origin].join(" ").trimEnd() }),
    ),
  },
  ...Object.entries(files).map(([name, file]) => ({
    path: endpoints.docsFile.path.replace(":file", name),
    ...file,
  })),
];

import { readFileSync } from "node:fs";
import { endpoints } from "../../../schemas/endpoints.ts";
import type { StaticFile } from "../static-file.ts";

const readOwn = (name: string) => readFileSync(new URL(name, import.meta.url));

/** Programs and pages on other sites may load it. */
const headers = { "access-control-allow-origin": "*" };

/** The client and its types. */
export const clientFiles: readonly StaticFile[] = [
  {
    path: endpoints.client.path,
    contentType: "text/javascript; charset=utf-8",
    bytes: readOwn("client.js"),
    headers,
  },
  {
    path: endpoints.clientTypes.path,
    contentType: "text/plain; charset=utf-8",
    bytes: readOwn("client.d.ts"),
    headers,
  },
];

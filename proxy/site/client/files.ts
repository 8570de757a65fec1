import { readFileSync } from "node:fs";
import { endpoints } from "../../../schemas/endpoints.ts";
import { bundle } from "../bundles.ts";
import type { StaticFile } from "../static-file.ts";

const declarations = readFileSync(new URL("declarations.d.ts", import.meta.url));
const python = readFileSync(new URL("client.py", import.meta.url));

const contentType = "text/javascript; charset=utf-8";
const script = { contentType, read: () => bundle("client.js") };
const types = { contentType: "text/plain; charset=utf-8", read: () => declarations };

/**
 * The client and its types, each under two names, since Node takes `.js` for CommonJS where package.json says no other;
 * and what it loads. The one for Python is as it is written.
 */
export const clientFiles: readonly StaticFile[] = [
  { path: endpoints.client.path, ...script },
  { path: endpoints.clientModule.path, ...script },
  { path: endpoints.clientTypes.path, ...types },
  { path: endpoints.clientModuleTypes.path, ...types },
  { path: endpoints.recompute.path, contentType, read: () => bundle("recompute.mjs") },
  { path: endpoints.clientPython.path, contentType: "text/x-python; charset=utf-8", read: () => python },
];

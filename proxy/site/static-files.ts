import { readFileSync } from "node:fs";
import { parse } from "node:path";
import { fileURLToPath } from "node:url";
import { build, type Plugin, stop } from "esbuild";
import { endpoints } from "../../schemas/endpoints.ts";
import { recordTypes } from "./client/record-types.ts";

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

const entries = ["page/app.tsx", "page/style.css", "client/client.ts", "client/recompute.ts"];

type BundleName = "app.js" | "style.css" | "client.js" | "recompute.mjs";

/** Keeps recompute.mjs out of the client's bundle, as a file of its own under the name that it is served with. */
const recomputeBeside: Plugin = {
  name: "recompute beside",
  setup({ onResolve }) {
    onResolve({ filter: /\/recompute\.ts$/ }, ({ kind }) =>
      kind === "dynamic-import" ? { path: "./recompute.mjs", external: true } : undefined,
    );
  },
};

let bundles: Promise<ReadonlyMap<string, Buffer>> | undefined;

/**
 * A script or style as it is served: one file that imports nothing, but for `recompute.mjs` beside it, which loads when
 * it is first needed. The first call makes all of them, in a process of its own.
 */
export async function bundle(name: BundleName): Promise<Buffer> {
  bundles ??= bundleAll();
  const bytes = (await bundles).get(parse(name).name);
  if (!bytes) throw new Error(`nothing was bundled as ${name}`);
  return bytes;
}

async function bundleAll(): Promise<ReadonlyMap<string, Buffer>> {
  try {
    const { outputFiles } = await build({
      absWorkingDir: fileURLToPath(new URL(".", import.meta.url)),
      entryPoints: entries.map((entry) => ({ in: entry, out: parse(entry).name })),
      outdir: ".",
      plugins: [recomputeBeside],
      bundle: true,
      minify: true,
      format: "esm",
      target: "es2022",
      charset: "utf8",
      write: false,
      logLevel: "silent",
    });
    return new Map(outputFiles.map(({ path, contents }) => [parse(path).name, Buffer.from(contents)]));
  } catch (error) {
    // The next call tries again.
    bundles = undefined;
    throw error;
  } finally {
    // Ends the process that bundled.
    void stop();
  }
}

const readClient = (name: string) => readFileSync(new URL(`client/${name}`, import.meta.url));

const javascript = "text/javascript; charset=utf-8";
const module = { contentType: javascript, read: () => bundle("client.js") };
const types = {
  contentType: "text/plain; charset=utf-8",
  /**
   * One file that imports nothing: what the client declares, the types that its source has too, and its records. What
   * the files say of themselves, in comments of one line, is left out.
   */
  read: () =>
    Buffer.from(
      ["declarations.d.ts", "types.ts"]
        .map((name) => String(readClient(name)).replace(/^(?:import [^;]*;|\/\/.*)\n+/gm, ""))
        .concat(recordTypes())
        .join(""),
    ),
};

/**
 * The client and its types, each under two names, since Node takes `.js` for CommonJS where package.json says no other;
 * and what it loads. The one for Python is as it is written.
 */
export const clientFiles: readonly StaticFile[] = [
  { path: endpoints.client.path, ...module },
  { path: endpoints.clientModule.path, ...module },
  { path: endpoints.clientTypes.path, ...types },
  { path: endpoints.clientModuleTypes.path, ...types },
  { path: endpoints.recompute.path, contentType: javascript, read: () => bundle("recompute.mjs") },
  {
    path: endpoints.clientPython.path,
    contentType: "text/x-python; charset=utf-8",
    read: () => readClient("client.py"),
  },
];

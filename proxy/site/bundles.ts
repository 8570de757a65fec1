import { parse } from "node:path";
import { fileURLToPath } from "node:url";
import { build, type Plugin, stop } from "esbuild";

const entries = ["page/app.tsx", "page/style.css", "client/client.ts", "client/recompute.ts"];

export type BundleName = "app.js" | "style.css" | "client.js" | "recompute.mjs";

/** Keeps recompute.mjs out of the bundle of the client: a file of its own, under the name that it is served with. */
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
 * it is first needed. The first call makes all of them, in a process of their own that takes a tenth of a second.
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

import { parse } from "node:path";
import { fileURLToPath } from "node:url";
import { build, stop } from "esbuild";

const entries = ["app.js", "style.css", "client/client.js", "client/recompute.mjs"];

export type BundleName = "app.js" | "style.css" | "client.js" | "recompute.mjs";

let bundles: Promise<ReadonlyMap<string, Buffer>> | undefined;

/**
 * A script or style as it is served: one file that imports nothing, but for `recompute.mjs` beside it, which loads when
 * it is first needed. All of them are made at the first call, in a process of their own that takes a tenth of a second.
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
      external: ["./recompute.mjs"],
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

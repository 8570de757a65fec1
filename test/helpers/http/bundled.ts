import { fileURLToPath } from "node:url";
import { buildSync } from "esbuild";

/** The text of one module that has the exports of the module at `entry`, bundled as what is served. */
export function bundled(entry: URL): string {
  const [file] = buildSync({
    entryPoints: [fileURLToPath(entry)],
    bundle: true,
    minify: true,
    format: "esm",
    target: "es2022",
    write: false,
  }).outputFiles;
  return file!.text;
}

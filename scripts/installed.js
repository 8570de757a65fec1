import * as nodeModule from "node:module";
import { join } from "node:path";

// Loaded before every command. Without it, an older Node or a fresh checkout without packages would fail with a stack
// trace.
const { node } = process.versions;
const [major = 0, minor = 0] = node.split(".").map(Number);
// Compression by zstd came with 22.15 and 23.8. An older Node lacks names, too, which a plain import would ask for.
if (major < 22 || (major === 22 && minor < 15) || (major === 23 && minor < 8)) {
  process.stderr.write(`This needs Node 22.15 or later, and ${process.execPath} is Node ${node}.\n`);
  process.exit(1);
}
try {
  import.meta.resolve("tsx/esm");
} catch {
  process.stderr.write("The packages are not installed: run `npm ci` in this folder first.\n");
  process.exit(1);
}
// A command starts in half the time when V8 finds its code compiled. A folder that cannot be written to is no fault.
nodeModule.enableCompileCache(join(import.meta.dirname, "../node_modules/.cache/compiled"));
// Node from 22.18 on strips types itself, which takes much less time; before 24 it does not know `await using`.
if (!process.features.typescript || Number.parseInt(process.versions.node, 10) < 24) await import("tsx/esm");

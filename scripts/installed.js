import * as nodeModule from "node:module";
import { join } from "node:path";

// Loaded before every command. Without it, an older Node or a fresh checkout without packages would fail with a stack
// trace.
const { node } = process.versions;
const [major = 0, minor = 0] = node.split(".").map(Number);
// An older Node hands every upgrade to the feed, or does not count requests. 23 ended before it learned to.
if (major < 22 || (major === 22 && minor < 21) || major === 23 || (major === 24 && minor < 9)) {
  process.stderr.write(
    `This needs Node 22 from 22.21 on, or 24.9 or later, and ${process.execPath} is Node ${node}.\n`,
  );
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
// Node strips types itself, which takes much less time; before 24 it does not know `await using`.
if (!process.features.typescript || major < 24) await import("tsx/esm");

import * as http from "node:http";
import * as nodeModule from "node:module";
import { homedir } from "node:os";
import { join } from "node:path";

// Loaded before every command. Without it, an older Node or a fresh checkout without packages would fail with a stack
// trace.
const { node } = process.versions;
const [major = 0, minor = 0] = node.split(".").map(Number);
// An older Node hands every upgrade to the feed, or does not count requests. Node 23 ended before it got this.
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
// Packages may have been installed for another system or another C library. Commands that need no DuckDB work
// nevertheless.
if (/[/\\](doctor|sample|snapshot|start)\.ts$/.test(process.argv[1] ?? "")) {
  const { platform, arch, report } = process;
  // Without it, the report looks up names of hosts, which takes seconds where no name server answers.
  report.excludeNetwork = true;
  const musl = platform === "linux" && !report.getReport().header.glibcVersionRuntime;
  const system = `${platform}-${arch}${musl ? "-musl" : ""}`;
  try {
    import.meta.resolve(`@duckdb/node-bindings-${system}/duckdb.node`);
  } catch {
    process.stderr.write(
      `DuckDB is not installed for ${system}: run \`npm ci\` on this system, or use one that DuckDB is built for, ` +
        "such as Debian.\n",
    );
    process.exit(1);
  }
}
// A user of a container who is not in its passwd may have no home, but the S3 client looks for one, too. Docker sets
// this one.
try {
  homedir();
} catch {
  process.env.HOME = "/";
}
// The agents of S3 and of the origin find a forward proxy by themselves. This is for everything else, such as fetch.
const forward = ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"].filter(
  (name) => process.env[name],
);
if (forward.length > 0 && http.setGlobalProxyFromEnv)
  try {
    http.setGlobalProxyFromEnv();
  } catch {
    process.stderr.write(
      `${forward.join(" or ")} is no address of a proxy, such as http://proxy.example:3128.\n`,
    );
    process.exit(1);
  }
else if (forward.length > 0 && !process.env.NODE_USE_ENV_PROXY)
  process.stderr.write(
    `${forward[0]} is set, and this Node heeds it everywhere with NODE_USE_ENV_PROXY=1 alone.\n`,
  );
// A command starts in half the time when V8 finds its code compiled, and so does a thread, which looks for the folder
// in the environment. A folder that cannot be written to does no harm.
process.env.NODE_COMPILE_CACHE ??= join(import.meta.dirname, "../node_modules/.cache/compiled");
nodeModule.enableCompileCache(process.env.NODE_COMPILE_CACHE);
// Node strips types itself in much less time, but before 24 it does not know `await using`.
if (!process.features.typescript || major < 24) await import("tsx/esm");

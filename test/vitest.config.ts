import { spawnSync } from "node:child_process";
import { statfsSync } from "node:fs";
import { availableParallelism } from "node:os";
import { defineConfig } from "vitest/config";
import { noSkips } from "./helpers/publish/no-skips.ts";
import { nodeOptions } from "./helpers/servers/programs.ts";

// Otherwise V8 collects all garbage some times a second: buffers lie outside its heap, and have a low limit there.
const fewerCollections = ["--initial-old-space-size=512", "--external-memory-accounted-in-global-limit"];

export default defineConfig({
  plugins: process.env.CI ? [noSkips] : [],
  test: {
    root: new URL("..", import.meta.url).pathname,
    include: ["test/**/*.test.ts"],
    // Many tests wait for servers more than they compute.
    maxWorkers: Math.ceil(availableParallelism() * 1.5),
    // Node does not start with a flag that its V8 does not know, as that of Node 22.
    execArgv: [
      ...nodeOptions,
      ...fewerCollections.filter((flag) => spawnSync(process.execPath, [flag, "-v"]).status === 0),
    ],
    // A process of its own for each file would load all modules again: a fifth of the time of the whole suite.
    isolate: false,
    // Also while the machine stands still for a minute, several times.
    testTimeout: 600_000,
    hookTimeout: 600_000,
    expect: { poll: { timeout: 590_000 } },
    env: { TZ: "UTC", ...fastTemporaryFolder() },
    // GitHub's language service imports JSON without the attribute that Node asks for.
    server: { deps: { inline: [/@actions\//] } },
  },
});

/** A file system in memory, where there is one with room: stores sync every object, and a disk makes that wait. */
function fastTemporaryFolder(): { TMPDIR?: string } {
  const folder = "/dev/shm";
  try {
    const { bavail, bsize } = statfsSync(folder);
    return process.env.TMPDIR === undefined && bavail * bsize > 4 * 2 ** 30 ? { TMPDIR: folder } : {};
  } catch {
    return {};
  }
}

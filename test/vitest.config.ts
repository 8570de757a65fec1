import { availableParallelism } from "node:os";
import { defineConfig } from "vitest/config";
import { noSkips } from "./helpers/no-skips.ts";

export default defineConfig({
  plugins: process.env.CI ? [noSkips] : [],
  test: {
    root: new URL("..", import.meta.url).pathname,
    include: ["test/**/*.test.ts"],
    // Many tests wait for servers more than they compute.
    maxWorkers: Math.ceil(availableParallelism() * 1.5),
    testTimeout: 180_000,
    hookTimeout: 180_000,
    env: { TZ: "UTC" },
    // GitHub's language service imports JSON without the attribute that Node asks for.
    server: { deps: { inline: [/@actions\//] } },
  },
});

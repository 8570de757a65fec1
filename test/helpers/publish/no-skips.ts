import type { Plugin } from "vite";
import type { Reporter, TestModule } from "vitest/node";

/** The one file whose tests need data that is not part of the repository. It says itself when they are skipped. */
const withData = "test/project/real-data.test.ts";

/** Makes a run fail that skipped a test: in CI everything is installed that a test may need. */
const failsOnSkips: Reporter = {
  onTestRunEnd(modules) {
    const skipped = modules.filter(({ moduleId }) => !moduleId.endsWith(withData)).flatMap(skippedIn);
    for (const name of skipped) console.error(`skipped in CI: ${name}`);
    if (skipped.length > 0) process.exitCode = 1;
  },
};

function skippedIn(module: TestModule): string[] {
  const tests = [...module.children.allTests("skipped")];
  return tests.map((test) => `${module.relativeModuleId} > ${test.fullName}`);
}

/** Adds the reporter, also where the command line names reporters. */
export const noSkips: Plugin = {
  name: "no-skips",
  configureVitest({ vitest }) {
    vitest.config.reporters.push(failsOnSkips);
  },
};

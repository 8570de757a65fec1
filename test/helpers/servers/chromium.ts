import { type Browser, chromium } from "playwright-core";
import { findProgram } from "./programs.ts";

/**
 * Chromium's program, or undefined where it is not installed; under CI that is an error. The one that never has a
 * window takes half the time.
 */
export const findChromium = () => findProgram("chromium-headless-shell", "chromium");

/** How long an action or a wait of a page may last, in milliseconds: less than a test. */
const patienceMilliseconds = 590_000;

/** Starts a browser without a window; `close()` ends it. */
export async function launch(program: string): Promise<Browser> {
  const browser = await chromium.launch({
    executablePath: program,
    args: [
      // A container has no user namespaces for the sandbox, and nothing but the tests' pages is to be fetched.
      ...["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"],
      // A process of its own for each page would compile the site's scripts again: most of what a page costs.
      "--process-per-site",
    ],
  });
  browser.on("context", (context) => context.setDefaultTimeout(patienceMilliseconds));
  return browser;
}

let shared: Promise<Browser> | undefined;

/** The browser for all files that one process tests: Playwright ends it when vitest ends the process. */
export const sharedBrowser = (): Promise<Browser> => (shared ??= launch(findChromium()!));

import axe from "axe-core";
import type { Browser, BrowserContext, BrowserContextOptions, Page } from "playwright-core";
import { until } from "../http/proxy-client.ts";

// What is evaluated in the page is text: the types of the DOM are not those of this project's programs.

/** A reader's screen. */
export interface Screen {
  scheme: "light" | "dark";
  width: number;
}

export const laptop: Screen = { scheme: "light", width: 1366 };
export const phone: Screen = { scheme: "dark", width: 390 };
const heightOf = (width: number) => (width > 700 ? 768 : 844);

/** A page of the site that records every fault. */
export interface WatchedPage {
  page: Page;
  context: BrowserContext;
  /**
   * Errors and warnings of the console, breaches of the page's policy, uncaught errors, and requests to other origins
   * so far. A refused request is an error to the console whatever the page makes of it.
   */
  faults: string[];
  /** Every address that was asked for. */
  asked: string[];
}

/** A reader with nothing cached. */
export async function newReader(
  browser: Browser,
  { scheme, width }: Screen = laptop,
  options: BrowserContextOptions = {},
): Promise<BrowserContext> {
  const context = await browser.newContext({
    viewport: { width, height: heightOf(width) },
    colorScheme: scheme,
    ...options,
  });
  // Without it, a wait for what never comes would take the whole test with it, and not say what that was.
  context.setDefaultTimeout(120_000);
  return context;
}

/** Opens an address of the site for a new reader. */
export const openWatched = async (browser: Browser, address: string, screen?: Screen): Promise<WatchedPage> =>
  watch(await newReader(browser, screen), address);

/** Opens an address of the site in another page of a reader. */
export async function watch(context: BrowserContext, address: string): Promise<WatchedPage> {
  const page = await context.newPage();
  const faults: string[] = [];
  const asked: string[] = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) faults.push(message.text());
  });
  page.on("pageerror", (error) => faults.push(String(error)));
  page.on("request", (request) => {
    asked.push(request.url());
    const { origin, protocol } = new URL(request.url());
    if (protocol !== "data:" && origin !== new URL(address).origin) faults.push(`asked ${request.url()}`);
  });
  await page.addInitScript(`document.addEventListener("securitypolicyviolation", (breach) => {
    console.error("policy: " + breach.violatedDirective + " " + breach.blockedURI);
  })`);
  await page.goto(address);
  return { page, context, faults, asked };
}

/** Of what is many and alike in a page, axe looks at the first few. */
const alike = ["tr", ".market", ".facet", ".signals > li"].map((each) => `${each}:nth-child(n + 6)`);

/** What axe finds in the page, one line each. Small targets are among them, and headings that skip a level. */
export async function violations(page: Page): Promise<string[]> {
  if (!(await page.evaluate("'axe' in window"))) await page.evaluate(axe.source);
  // What sticks to the top covers what is scrolled below it.
  await page.evaluate("scrollTo(0, 0)");
  const options = { resultTypes: ["violations"], rules: { "target-size": { enabled: true } } };
  const results = await page.evaluate<axe.AxeResults>(
    `axe.run(${JSON.stringify({ exclude: alike })}, ${JSON.stringify(options)})`,
  );
  return results.violations.flatMap(({ id, nodes }) =>
    nodes.map(({ html, failureSummary }) => `${id}: ${html} ${failureSummary}`),
  );
}

/** By how many pixels the page is wider than the screen. */
export const overhang = (page: Page): Promise<number> =>
  page.evaluate("document.documentElement.scrollWidth - innerWidth");

/** Gives the page a key as a reader does, and waits until it is taken. */
export async function enterKey(page: Page, key: string): Promise<void> {
  if (!(await page.isVisible("#key"))) await page.click("summary:has-text('Enter an API key')");
  await page.fill("#key", key);
  await page.click("text=Use key");
  await page.waitForSelector("text=Forget key");
}

/**
 * Waits until the site has handled a new address. A click changes the address at once; the site handles it a moment
 * later, and gives its entry in the history a state. An entry that one goes back to has a state from before.
 */
export const arrived = (page: Page): Promise<void> =>
  until("the site to handle its address", () => page.evaluate("history.state !== null"));

/** Where a page, its history, its storage or its requests hold a secret. */
export async function tracesOf({ page, context, asked }: WatchedPage, secret: string): Promise<string[]> {
  const places = await page.evaluate<Record<string, string>>(`(async () => ({
    address: location.href,
    document: document.documentElement.outerHTML,
    fields: [...document.querySelectorAll("input")].map((field) => field.value).join(),
    history: JSON.stringify([history.state, navigation.entries().map((entry) => [entry.url, entry.getState()])]),
    local: JSON.stringify({ ...localStorage }),
    session: JSON.stringify({ ...sessionStorage }),
    cookies: document.cookie,
    databases: JSON.stringify(await indexedDB.databases()),
    caches: JSON.stringify(await caches.keys()),
    name: window.name,
  }))()`);
  const all = { ...places, asked: asked.join(), context: JSON.stringify(await context.storageState()) };
  return Object.entries(all).flatMap(([name, text]) => (text.includes(secret) ? [name] : []));
}

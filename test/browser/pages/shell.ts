import type { Page } from "playwright-core";
import { arrived, enterKey } from "../../helpers/servers/site-page.ts";
import { alerts, isFocused } from "./look.ts";

/** What surrounds the views: navigation, key, quota, news, the colophon, and the box that leads anywhere. */
export function shellOf(page: Page) {
  const field = page.getByLabel("API key", { exact: true });
  const problem = page.locator("#problem-key");
  const jump = page.locator(".jump");
  const found = jump.locator("li a");
  return {
    heading: page.getByRole("heading", { level: 1 }),
    main: page.getByRole("main"),
    view: (name: "Scores" | "Archive") =>
      page.getByRole("navigation", { name: "Views" }).getByRole("link", { name }),
    skip: page.getByRole("link", { name: "Skip to the content" }),
    link: (name: string) => page.getByRole("link", { name, exact: true }),
    failure: alerts(page),
    /** What would load or run something of others. */
    embedded: page.locator("main :is(img, script, iframe)"),
    closedDetails: page.locator("main details:not([open]) > summary:visible"),
    tryAgain: page.getByRole("button", { name: "Try again" }),
    /** A picture of data, or a control that looks like one. */
    pictures: page.locator("main :is(svg, b)"),
    /** What looks like an answer of the archive. */
    answers: page.locator("main :is(svg, .mark, .tally)"),

    standing: page.locator(".standing"),
    key: {
      field,
      problem: problem.locator(".failure"),
      problemTitle: problem.locator("strong"),
      open: () => page.locator("summary").filter({ hasText: "Enter an API key" }).click(),
      /** Gives a key that will not be taken. */
      offer: async (key: string) => {
        await field.fill(key);
        await page.getByRole("button", { name: "Use key" }).click();
      },
      isFaulty: () => isFocused(field.and(page.locator("[aria-invalid]"))),
    },
    enterKey: (key: string) => enterKey(page, key),
    forgetKey: page.getByRole("button", { name: "Forget key" }),
    /** What a view asks a key for, and its button that leads to the field. */
    promise: page.locator(".promise"),
    askForKey: page.locator(".promise").getByRole("button", { name: "Enter an API key" }),

    news: page.locator("#news").getByRole("button"),
    anyNews: page.locator("#news:not(:empty)"),
    colophon: page.getByRole("contentinfo"),
    snapshot: () => page.locator("footer code").first().getAttribute("title"),

    jump: {
      box: jump,
      found,
      /** Opens the box by its keys and types; `keys` are pressed when there are matches. */
      go: async (text: string, ...keys: string[]) => {
        // A view that comes closes the box.
        await arrived(page);
        await jump.waitFor({ state: "hidden" });
        await page.keyboard.press("Control+k");
        await page.keyboard.type(text);
        await found.first().waitFor();
        for (const key of keys) await page.keyboard.press(key);
      },
    },
  };
}

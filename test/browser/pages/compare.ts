import type { Page } from "playwright-core";
import { cells } from "./look.ts";

/** Protocols side by side. */
export function compareOf(page: Page) {
  const table = page.locator(".compared-protocols");
  const choice = page.getByLabel(/^(Compare with|Protocol)$/);
  return {
    table,
    rows: () => cells(table.locator("tr:has(td)")),
    protocols: table.locator("thead a:not(.away)"),
    choice,
    add: async (slug: string) => {
      await choice.selectOption(slug);
      await page.getByRole("button", { name: "Add" }).click();
    },
    takeAway: (name: string) => page.getByRole("link", { name: `Take ${name} away` }).click(),
    differences: page.getByText("They differ most in "),
    dimension: (name: string) => table.getByRole("rowheader", { name }).locator("a"),
  };
}

/** What the numbers mean. */
export const meaningsOf = (page: Page) => ({
  heading: page.getByRole("heading", { name: "What the numbers mean" }),
  asked: page.locator("[aria-current=true] dd"),
  entries: page.locator(".meaning"),
});

/** A dimension: how it is distributed, and who is at either end. */
export function dimensionOf(page: Page) {
  const ranked = page.locator(".ranked");
  return {
    weakest: ranked.first().locator("li"),
    strongest: ranked.last().locator("li"),
    titles: page.locator("main .columns-chart .column title"),
    columns: page.locator("main .columns-chart .column"),
  };
}

import type { Page } from "playwright-core";
import { cells } from "./look.ts";

/** The list of all protocols. */
export function scoreboardOf(page: Page) {
  const table = page.locator(".board");
  const rows = table.locator("tbody tr");
  const heading = (column: string) => page.getByRole("columnheader", { name: column });
  return {
    rows,
    shown: async () => {
      const shown = await cells(rows);
      // The link that compares stands in the first cell, and is read out alone.
      return shown.map(([name = "", ...others]) => [name.replace(/Compare .*$/, ""), ...others]);
    },
    count: page.locator("main .count"),
    protocol: (name: string) => rows.getByRole("link", { name, exact: true }),
    /** The links to protocols, without those that compare them. */
    protocols: rows.locator("a[href*='#/protocols/']"),
    compareFirst: rows.getByRole("link", { name: "Compare " }).first(),
    cell: (column: string) => rows.locator(`td[data-name=${column}]`).first(),
    filter: page.getByRole("searchbox", { name: "Find a protocol" }),
    nothing: page.getByText("No protocol matches"),
    sort: (column: string) => heading(column).getByRole("button"),
    sorted: page.locator("[aria-sort]"),
    tier: (name: string) => page.getByRole("group", { name: "Tiers" }).getByRole("button", { name }),
    pressed: page.locator("[aria-pressed=true]"),
    distribution: page.locator(".distribution svg"),
    /** A part of the picture that stands for protocols of a tier. */
    pieceOf: (step: number) => page.locator(`.distribution .column.tier-${step}`).first(),
    movers: page.locator(".movers"),
    more: page.getByRole("button", { name: /^Show [\d,]+ more/ }),
    curveOf: (name: string) => page.getByRole("button", { name: `Curve of ${name}` }),
    openers: page.getByRole("button", { name: "Curve of " }),
    curve: page.locator(".curve"),
    curvePoints: page.locator(".curve .point"),
    terms: page.locator("[data-meaning]"),
    /** What the bubble with a meaning says, if it is open. */
    meaning: () => page.locator("#meaning:popover-open").allTextContents(),
    /** What describes the element that has the focus. */
    described: async () => page.textContent(`#${await page.getAttribute(":focus", "aria-describedby")}`),
  };
}

import type { Page } from "playwright-core";
import { isFocused } from "./look.ts";

/** The panel with which a reader's browser counts for itself. */
export function recomputePanel(page: Page) {
  const panel = page.getByRole("region", { name: "Recompute here" });
  const opener = page.getByRole("button", { name: /^(Recompute here|✓ Recomputed)$/ });
  const trust = panel.getByRole("textbox");
  return {
    panel,
    opener,
    trust,
    fetch: panel.getByRole("button", { name: "Fetch and recompute" }),
    failure: panel.locator(".failure"),
    /** Opens the panel if it is closed, and starts with this key. */
    start: async (key = "") => {
      if (!(await panel.isVisible())) await opener.click();
      await trust.fill(key);
      await panel.getByRole("button", { name: "Fetch and recompute" }).click();
    },
    close: () => panel.getByRole("button", { name: "Close" }).click(),
    giveUp: () => panel.getByRole("button", { name: "Show the service’s numbers again" }).click(),
    isLeft: () => isFocused(opener),
    done: panel.getByText("✓ Recomputed."),
    /** The total, once it is this browser's. */
    total: page.locator(".count.recomputed"),
    /** Everything that is marked as counted in this browser. */
    marked: page.locator(".recomputed"),
    markedFacets: page.locator(".facet.recomputed"),
  };
}

/** The choice of an earlier state, and what says that one is shown. */
export function asOfChooser(page: Page) {
  const choice = page.getByLabel("State", { exact: true });
  const panel = page.locator(".as-of");
  return {
    panel,
    others: panel.locator("details"),
    state: panel.getByRole("note"),
    /** Opens the choice and returns the ids of the states in it. */
    open: async () => {
      await page.locator("summary").filter({ hasText: "As it was" }).click();
      await choice.waitFor();
      return choice.locator("option").evaluateAll((all) => all.map((each) => each.getAttribute("value")));
    },
    show: () => panel.getByRole("button", { name: "Show", exact: true }).click(),
    present: page.getByRole("button", { name: "Show the present one" }),
  };
}

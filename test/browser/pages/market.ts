import type { Page } from "playwright-core";
import { facts } from "./look.ts";

/** A market's page. */
export function marketOf(page: Page) {
  const signals = page.locator(".signals");
  const items = signals.locator("> li");
  return {
    signals,
    facts: () => facts(page),
    names: items.locator("h3"),
    risks: items.locator(".score > :nth-child(2)"),
    weights: items.locator(".score .quiet"),
    /** Links to evidence: address, text and relation. */
    links: () =>
      items
        .locator("a:not(.term)")
        .evaluateAll((all) =>
          all.map((each) => [each.getAttribute("href"), each.textContent, each.getAttribute("rel")]),
        ),
    linksOut: page.locator(".signals a:not(.term), .facts a"),
    furtherEvidence: signals.locator("details li"),
    verify: page.getByRole("button", { name: "Verify in this browser" }),
    proven: page.locator(".proven"),
    chain: page.locator(".chain"),
    snapshot: page.locator(".chain code"),
    allMarkets: page.getByRole("link", { name: "All markets" }),
  };
}

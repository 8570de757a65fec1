import type { Page } from "playwright-core";
import { cells, facts, isFocused } from "./look.ts";

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

export const meaningsOf = (page: Page) => ({
  heading: page.getByRole("heading", { name: "What the numbers mean" }),
  asked: page.locator("[aria-current=true] dd"),
  entries: page.locator(".meaning"),
});

export function dimensionOf(page: Page) {
  const ranked = page.locator(".ranked");
  return {
    weakest: ranked.first().locator("li"),
    strongest: ranked.last().locator("li"),
    titles: page.locator("main .columns-chart .column title"),
    columns: page.locator("main .columns-chart .column"),
  };
}

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

export function protocolOf(page: Page) {
  const dimensions = page.locator(".dimensions");
  return {
    dimensions: () => cells(dimensions.locator("tbody tr")),
    table: dimensions,
    scores: dimensions.locator("b"),
    scoreBars: dimensions.locator(".value"),
    losses: page.locator(".change.down"),
    facts: () => facts(page),
    bri: page.locator(".bri b"),
    among: page.getByText(/^Place \d+ of /),
    amongPicture: page.locator(".among svg").first(),
    amongColumns: page.locator(".among .hot .column"),
    evidence: page.locator(".hash"),
    badge: page.locator(".badge"),
    badgeSource: page.locator(".badge textarea"),
    /** Without the one of its place among all. */
    charts: page.locator(".chart:not(.among .chart)"),
    points: page.locator("section[aria-labelledby=history] .point"),
    percentiles: page.getByText("Percentile").first(),
    openTable: () => page.locator("summary").filter({ hasText: "Show as a table" }).click(),
    runs: () => cells(page.locator(".plain-table tbody tr")),
    allScores: page.getByRole("link", { name: "All scores" }),
    axis: page.locator(".bounds"),
    borderNames: page.locator(".chart .border + text"),
    showRuns: page.getByRole("button", { name: "Show the last runs one by one" }),
    why: page.locator(".why :is(h3, li, p)"),
    secondRun: page.locator(".why h3").nth(1),
    noTierMoves: page.getByText("None. The log has the changes of at most 30 days"),
  };
}

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
    total: page.locator(".count.recomputed"),
    marked: page.locator(".recomputed"),
    markedFacets: page.locator(".facet.recomputed"),
  };
}

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

import type { Page } from "playwright-core";
import { cells, facts } from "./look.ts";

/** A protocol's page. */
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
    borders: page.locator(".chart .border"),
    borderNames: page.locator(".chart .border + text"),
    showRuns: page.getByRole("button", { name: "Show the last runs one by one" }),
    why: page.locator(".why :is(h3, li, p)"),
    secondRun: page.locator(".why h3").nth(1),
    noTierMoves: page.getByText("None. The log has the changes of at most 30 days"),
  };
}

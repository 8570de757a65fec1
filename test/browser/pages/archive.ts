import type { Page } from "playwright-core";
import { expect } from "vitest";
import type { MarketPage } from "../../../schemas/envelopes.ts";
import { arrived } from "../../helpers/servers/site-page.ts";
import { histogramOf, savedBy } from "./charts.ts";
import { alerts, cells, idle, isFocused } from "./look.ts";

export function archiveOf(page: Page) {
  // A facet by the parameter of its field, which has the same id.
  const facet = (parameter: string) => page.locator(".facet", { has: page.locator(`#${parameter}`) });
  const field = (parameter: string) => page.locator(`#${parameter}`);
  const choices = (parameter: string) => facet(parameter).locator(".choices a");
  const chosen = page.getByRole("list", { name: "Filters in effect" }).getByRole("link");
  const pager = page.getByRole("navigation", { name: "Pages" });
  const sheet = page.locator("dialog.sheet");
  const [count, questions] = [page.locator("main .count"), page.locator(".question")];
  const side = page.locator(".side");
  const settled = async () => {
    await arrived(page);
    // On a phone they are in a sheet.
    await page.waitForSelector(".choices a", { state: "attached" });
    await idle(page);
  };
  return {
    count,
    questions,
    question: (id: string) => page.locator(`.question[href="#/markets/${id}"]`),
    markets: page.locator(".market"),
    disputed: page.locator(".market .disputed"),
    rightToLeft: {
      questions: page.locator(".question:dir(rtl)"),
      values: page.locator(".choices .value:dir(rtl)"),
    },
    side,
    settled,
    expectListed: async ({ total, markets }: MarketPage) => {
      const words = `${total.toLocaleString("en")} market${total === 1 ? " matches" : "s match"}`;
      // The first markets may be the same before and after, so the total is asked for with them.
      const shown = async () => [await count.first().textContent(), ...(await questions.allTextContents())];
      // Asking the page more often would keep it from drawing.
      const expected = [words, ...markets.map(({ question }) => question)];
      await expect.poll(shown, { interval: 100 }).toEqual(expected);
      // The counts may come later than the list.
      await idle(page);
    },
    /** Every number of markets that is shown, except in the list. */
    numbers: async () => ({
      total: await count.first().textContent(),
      counts: await page.locator(".choices a, .columns-chart title, .facet-head").allTextContents(),
      shares: await page.locator(".verdict, .shares td").allTextContents(),
    }),
    /** Everything that says a number of markets, also the list and its pages. */
    figures: () =>
      page
        .locator(
          ".market, .count:not(:empty), .tally, .columns-chart, .facet-head .quiet:not(:empty), .pager",
        )
        .allTextContents(),
    /** The opacity of what counts and pictures stand in. */
    opacity: () =>
      page.evaluate<string[]>(`[...new Set([...document.querySelectorAll(".choices, .facet .frame")]
        .map((each) => getComputedStyle(each).opacity))]`),
    lead: async (query: string) => {
      await page.evaluate(`new Promise((resolve) => {
        const side = document.querySelector(".side");
        const ended = new MutationObserver(() => side.hasAttribute("aria-busy") || resolve(ended.disconnect()));
        ended.observe(side, { attributeFilter: ["aria-busy"] });
        location.hash = ${JSON.stringify(`#/archive${query}`)};
      })`);
      await settled();
    },
    search: page.getByRole("searchbox", { name: "Words of the question" }),

    facet,
    facets: page.locator(".facet"),
    field,
    fields: page.locator("#q, .facet input"),
    histogram: (parameter: string) => histogramOf(facet(parameter)),
    /** Where all histograms can be taken along from. */
    histograms: page.locator(".along"),
    logScale: page.getByRole("button", { name: "Log scale" }),
    choice: (parameter: string, value: string) => choices(parameter).filter({ hasText: value }),
    choices: (parameter: string) =>
      choices(parameter).evaluateAll((all) =>
        all.map((each) => [
          each.querySelector(".value")?.textContent ?? "",
          each.querySelector(".tally")?.firstChild?.textContent ?? "",
        ]),
      ),
    currentValues: page.locator(".choices [aria-current] span.value"),
    furtherValues: (parameter: string) => facet(parameter).locator("summary").first(),
    fieldProblem: (parameter: string) => page.locator(`#problem-${parameter}`),
    isFaulty: (parameter: string) => isFocused(field(parameter).and(page.locator("[aria-invalid]"))),
    faultyFields: page.locator("[aria-invalid]"),

    chosen,
    takeAway: (words: string | RegExp) => chosen.filter({ hasText: words }).click(),
    clearAll: page.getByRole("link", { name: "Clear all" }),
    /** What an address asks of the archive, where no key opens it. */
    askedOf: page.locator(".shared li"),
    publicTiers: page.getByRole("list", { name: "Markets by tier" }).getByRole("listitem"),
    askedTab: page.locator(".shared h2"),

    sheet,
    isModal: page.locator("dialog.sheet:modal"),
    openSheet: page.getByRole("button", { name: "Filters", exact: true }),
    leaveSheet: sheet.getByRole("button", { name: /^Show / }),

    problem: page.locator(".problem .failure"),
    sideProblem: side.locator(".failure"),
    failures: alerts(page),
    tab: (name: string) =>
      page.getByRole("navigation", { name: "What is shown" }).getByRole("link", { name }),
    range: pager.locator("p").first(),
    turn: (name: "First" | "Previous" | "Next" | "Last") => pager.getByRole("link", { name }).click(),
    pageNumber: pager.getByLabel("Page", { exact: true }),
    goToPage: async (number: string) => {
      await pager.getByLabel("Page", { exact: true }).fill(number);
      await pager.getByRole("button", { name: "Go" }).click();
    },
    wordsThatBegin: (text: string) => pager.getByRole("link", { name: `${text}*` }),

    download: (name: string) => savedBy(page, page.getByRole("button", { name: `Download ${name}` })),
    downloads: page.getByRole("button", { name: "Download " }),
    command: (name: string) => page.getByRole("textbox", { name: `Command for ${name}` }).textContent(),

    shares: {
      compare: (version: string) => page.locator(".versions a").filter({ hasText: version }).click(),
      legend: page.locator(".legend span"),
      verdicts: page.locator(".verdict"),
      first: page.locator(".chart .first"),
      second: page.locator(".chart .second"),
      /** Charts of one formula beside another. */
      compared: page.locator(".compared .chart .first"),
      legendOf: (series: "first" | "second") => page.locator(`.legend .${series}`),
      means: page.locator(".chart .mean"),
      sections: page.locator(".shares"),
      tables: page.locator(".shares table"),
      rows: (nth: number) => cells(page.locator(".shares").nth(nth).locator("tbody tr")),
      chart: (title: string) =>
        page
          .locator(".shares", { has: page.getByRole("heading", { name: title, exact: true }) })
          .locator(".chart"),
    },
  };
}

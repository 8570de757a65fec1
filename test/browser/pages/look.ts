import type { Locator, Page } from "playwright-core";

// What every view has, and what several page objects need. A selector of CSS stands in these objects alone, once.

export const cells = (rows: Locator): Promise<string[][]> =>
  rows.evaluateAll((all) => all.map((row) => [...row.children].map((cell) => cell.textContent ?? "")));

export const attributes = (elements: Locator, name: string): Promise<(string | null)[]> =>
  elements.evaluateAll((all, attribute) => all.map((each) => each.getAttribute(attribute)), name);

export const isFocused = async (locator: Locator): Promise<boolean> =>
  (await locator.and(locator.page().locator(":focus")).count()) > 0;

/** Waits until nothing on the page is marked as under way. */
export const idle = async (page: Page): Promise<void> => {
  await page.waitForSelector("[aria-busy=true]", { state: "detached" });
};

export const alerts = (page: Page) => page.locator(".failure");

export async function facts(page: Page): Promise<Record<string, string>> {
  const pairs = await page
    .locator(".facts > div")
    .evaluateAll((all) => all.map((row) => ["dt", "dd"].map((name) => row.querySelector(name)?.textContent)));
  return Object.fromEntries(pairs);
}

export const alter = (page: Page, addresses: string, change: (json: ReturnType<typeof JSON.parse>) => void) =>
  page.route(addresses, async (route) => {
    const response = await route.fetch();
    const json = await response.json();
    change(json);
    await route.fulfill({ response, json });
  });

export const styles = (elements: Locator, property: string): Promise<string[]> =>
  elements.evaluateAll(
    (all, name) =>
      all.map((each) => each.ownerDocument.defaultView!.getComputedStyle(each).getPropertyValue(name)),
    property,
  );

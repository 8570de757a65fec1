import { readFile } from "node:fs/promises";
import type { Locator, Page } from "playwright-core";

export function histogramOf(facet: Locator) {
  const page = facet.page();
  const picture = facet.getByRole("slider");
  const columns = picture.locator(".column");
  const reach = async (column: number, steps = 1) => {
    const { x, width } = (await columns.nth(column).evaluate((each) => each.getBoundingClientRect()))!;
    const box = (await picture.boundingBox())!;
    await page.mouse.move(x + width / 2, box.y + box.height / 2, { steps });
  };
  const press = async (column: number) => {
    await reach(column);
    await page.mouse.down();
  };
  return {
    picture,
    columns,
    titles: picture.locator("title"),
    press,
    reach,
    release: () => page.mouse.up(),
    brush: async (from: number, to: number) => {
      await press(from);
      await reach(to, 3);
      await page.mouse.up();
    },
    /** What is shown and read out of the column that the arrow keys are at. */
    said: async () => [
      await facet.locator(".said").textContent(),
      await picture.getAttribute("aria-valuetext"),
    ],
    hot: picture.locator(".hot"),
    cold: picture.locator(".cold"),
    grid: picture.locator(".grid"),
    /** Of every column, in hundredths of the highest. */
    heights: async () => {
      const heights = await columns.evaluateAll((all) =>
        all.map((each) => Number(each.getAttribute("height"))),
      );
      return heights.map((height) => Math.round((100 * height) / Math.max(...heights)));
    },
  };
}

export function takeAlongOf(page: Page) {
  /** Opens the panel of a chart, or of one with this title among several. */
  return async (within: Locator, title = "") => {
    const panel = within.locator(".take-along").last();
    if ((await panel.getAttribute("open")) === null) await panel.locator("summary").click();
    if (title) await panel.getByLabel("Chart").selectOption(title);
    const text = (name: string) => panel.getByRole("textbox", { name });
    await text("Citation").waitFor();
    return {
      panel,
      told: async (name: string) => (await text(name).textContent()) ?? "",
      saved: (name: string, nth = 0) =>
        savedBy(page, panel.getByRole("button", { name, exact: true }).nth(nth)),
    };
  };
}

/** How wide a picture is that was taken along, and which of its texts are cut, or lie outside of it or of its chart. */
export async function layoutOf(page: Page, picture: string): Promise<{ width: number; cut: string[] }> {
  const other = await page.context().newPage();
  try {
    await other.setContent(picture);
    return await other
      .locator("svg")
      .first()
      .evaluate((whole) => {
        const { left, top, width, height } = whole.getBoundingClientRect();
        // The rectangle of a picture within another is that of what is drawn, and not of the part that is shown.
        const frameOf = (picture: typeof whole) => {
          if (picture === whole) return { x: left, y: top, width, height };
          const [x, y, wide, high] = ["x", "y", "width", "height"].map((name) =>
            Number(picture.getAttribute(name)),
          ) as [number, number, number, number];
          return { x: left + x, y: top + y, width: wide, height: high };
        };
        const cut = [...whole.querySelectorAll("text")].filter((text) => {
          const own = text.getBoundingClientRect();
          const frame = frameOf(text.closest("svg") as typeof whole);
          return (
            own.left < frame.x ||
            own.right > frame.x + frame.width ||
            own.top < frame.y ||
            own.bottom > frame.y + frame.height
          );
        });
        return { width, cut: cut.map(({ textContent }) => textContent) };
      });
  } finally {
    await other.close();
  }
}

export async function savedBy(page: Page, button: Locator): Promise<Buffer> {
  const download = page.waitForEvent("download");
  await button.click();
  return readFile(await (await download).path());
}

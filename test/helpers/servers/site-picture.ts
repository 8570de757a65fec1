import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { findChromium, launch } from "./chromium.ts";
import { enterKey, openWatched } from "./site-page.ts";

// The README's picture of the site. To take it anew, while `npm start` runs and with the Aegis key that it printed:
//
//     npm exec -- node --import tsx/esm test/helpers/servers/site-picture.ts http://127.0.0.1:8080/ KEY

/** Where the picture lies, from the root of the project. */
export const pictureFile = ".github/site.png";

/** The scoreboard above the archive, as one PNG. */
export async function takePicture(browser: Browser, home: string, key: string): Promise<Buffer> {
  const { page, context } = await openWatched(browser, home, { scheme: "light", width: 1280 });
  const shot = (y: number, height: number) => page.screenshot({ clip: { x: 0, y, width: 1280, height } });
  await page.waitForSelector("tbody tr");
  const shots = [await shot(0, 514)];
  await page.goto(`${home}#/archive?min_composite=650&max_composite=749&q=rate+cut`);
  await enterKey(page, key);
  await page.waitForSelector(".market");
  await page.waitForSelector(".choices a");
  // Without the head of the page, which stands there already.
  shots.push(await shot(53, 560));
  const sheet = await context.newPage();
  await sheet.setViewportSize({ width: 960, height: 100 });
  const images = shots.map(
    (png) => `<img src="data:image/png;base64,${png.toString("base64")}" width="960">`,
  );
  await sheet.setContent(`<body style="margin:0;line-height:0">${images.join("")}</body>`);
  const picture = await sheet.screenshot({ fullPage: true });
  await context.close();
  return picture;
}

if (process.argv[1] === import.meta.filename) {
  const [home = "", key = ""] = process.argv.slice(2);
  const browser = await launch(findChromium()!);
  await writeFile(join(import.meta.dirname, "../../..", pictureFile), await takePicture(browser, home, key));
  await browser.close();
}

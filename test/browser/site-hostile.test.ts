import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import type { HistoricalMarket } from "../../schemas/records.ts";
import { market, publishRecords } from "../helpers/publish/records.ts";
import { findChromium } from "../helpers/servers/chromium.ts";
import { serveSmallSite } from "../helpers/servers/site-served.ts";
import { attributes } from "./pages/look.ts";
import { visit } from "./pages/visit.ts";

const program = findChromium();

describe.skipIf(!program)("hostile data on the site", () => {
  // Its direction, right to left, ends with the text only where a page isolates it.
  const script = `\u202e<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>`;
  const address = "javascript:document.title='owned'";
  const site = serveSmallSite((storage) => publishRecords(storage, [hostileMarket(script, address)]));

  test("is shown as text, and leads nowhere", async () => {
    const { page, archive, market, shell, goTo } = await visit(site, "#/archive", { key: site.aegis });
    const category = archive.choice("category", script);
    await category.waitFor();
    expect(await spreading(page)).toEqual([]);
    expect((await archive.choices("category")).map(([value]) => value)).toEqual([script]);
    await category.click();
    await archive.chosen.first().waitFor();
    expect(await archive.chosen.first().textContent()).toContain(script);
    expect(await spreading(page)).toEqual([]);
    await goTo(`#/archive?show=score&compare=${encodeURIComponent(script)}`);
    await archive.shares.legend.first().waitFor();
    expect(await archive.shares.legend.first().textContent()).toContain(script);
    expect(await spreading(page)).toEqual([]);
    await page.goBack();
    expect(await archive.questions.textContent()).toBe(script);
    await archive.questions.click();
    await market.signals.waitFor();
    expect(await shell.heading.textContent()).toBe(script);
    expect(await market.signals.textContent()).toContain(script);
    expect(await shell.main.textContent()).toContain(address);
    expect(await spreading(page)).toEqual([]);
    // However much evidence there is, it does not bury what follows.
    expect(await market.furtherEvidence.count()).toBe(1195);
    expect(await market.furtherEvidence.first().isVisible()).toBe(false);
    expect(await shell.embedded.count()).toBe(0);
    expect(await attributes(market.linksOut, "href")).toEqual(["https://example.org/note"]);
    expect(await page.title()).toBe("Market · Protocol Risk Scores");
  });
});

/** Texts whose direction spreads to the words around them: those that are not alone in what the page isolates. */
const spreading = (page: Page): Promise<string[]> =>
  page.evaluate(`(() => {
    const found = [];
    const all = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let text = all.nextNode(); text; text = all.nextNode()) {
      if (!text.textContent.includes("\\u202e")) continue;
      let holder = text.parentElement;
      while (getComputedStyle(holder).unicodeBidi === "normal") holder = holder.parentElement;
      const { textContent } = holder;
      if (textContent.lastIndexOf("\\u202e") > 0) found.push(holder.outerHTML.slice(0, 200));
    }
    return found;
  })()`);

/** A market whose every text is markup and every address a script, except for one. */
function hostileMarket(script: string, address: string): HistoricalMarket {
  const sound = market(0);
  const evidence = {
    type: script,
    label: script,
    pattern: script,
    reference: { label: script, url: address, kind: script },
  };
  return {
    ...sound,
    slug: script,
    question: script,
    category: script,
    resolvedOutcome: script,
    topRiskDriver: script,
    resolutionSource: address,
    dimensions: sound.dimensions.map((dimension, place) => ({
      ...dimension,
      name: script,
      description: script,
      evidence: Array.from({ length: place === 0 ? 1200 : 1 }, () => evidence),
      references: place === 0 ? [address, { url: "https://example.org/note", title: script }, null] : [],
      computation: { baseline: 1, raises: [script, [address]], lowers: [{ [script]: script }] },
    })),
  };
}

import type { Browser, BrowserContext } from "playwright-core";
import { expect, onTestFinished } from "vitest";
import { laptop, newReader, type Screen, watch } from "../../helpers/servers/site-page.ts";
import { archiveOf } from "./archive.ts";
import { takeAlongOf } from "./charts.ts";
import { shellOf } from "./shell.ts";
import {
  asOfChooser,
  compareOf,
  dimensionOf,
  marketOf,
  meaningsOf,
  protocolOf,
  recomputePanel,
  scoreboardOf,
} from "./views.ts";

interface Ways {
  key?: string;
  screen?: Screen;
  /** Whether the browser may complain, such as of an answer that a test refuses. */
  faulty?: boolean;
  /** Whether all tests of a file go on with it: they look at its faults themselves. */
  shared?: boolean;
  /** Whether nobody else shares its clock and what its browser keeps. */
  alone?: boolean;
}

/** What is drawn is asked for and not looked at: fewer pixels take less time. */
const blurred = { deviceScaleFactor: 0.25 };

const readers = new Map<string, Promise<BrowserContext>>();

/**
 * The reader of all visits of a file with a screen: the site keeps nothing in the browser but fetched parts of the
 * index. One page stays open, so that the process which has compiled the site goes on.
 */
function readerOf(browser: Browser, home: string, screen: Screen): Promise<BrowserContext> {
  const name = `${screen.scheme} ${screen.width}`;
  const open = async () => {
    const reader = await newReader(browser, screen, blurred);
    reader.once("close", () => readers.delete(name));
    await (await reader.newPage()).goto(`${home}healthz`);
    return reader;
  };
  const found = readers.get(name) ?? open();
  readers.set(name, found);
  return found;
}

export type Visit = Awaited<ReturnType<typeof visit>>;

/**
 * A reader of the site: the objects of its views, in a page of their own. With a key the archive is there at once. The
 * test fails if the browser complained, and its end closes the page.
 */
export async function visit(
  { browser, home }: { browser: Browser; home: string },
  address = "",
  { key, screen = laptop, faulty = false, shared = false, alone = false }: Ways = {},
) {
  const reader = await (alone ? newReader(browser, screen, blurred) : readerOf(browser, home, screen));
  const watched = await watch(reader, `${home}${address}`);
  const { page, faults } = watched;
  if (!shared)
    onTestFinished(async () => {
      const seen = [...faults];
      await (alone ? reader : page).close();
      if (!faulty) expect(seen).toEqual([]);
    });
  const shell = shellOf(page);
  const archive = archiveOf(page);
  if (key !== undefined) await shell.enterKey(key);
  if (key !== undefined && address.startsWith("#/archive")) await archive.settled();
  return {
    ...watched,
    shell,
    scoreboard: scoreboardOf(page),
    protocol: protocolOf(page),
    compare: compareOf(page),
    meanings: meaningsOf(page),
    dimension: dimensionOf(page),
    archive,
    market: marketOf(page),
    recompute: recomputePanel(page),
    asOf: asOfChooser(page),
    takeAlong: takeAlongOf(page),
    hash: () => new URL(page.url()).hash,
    /** Leads to an address as a link does that somebody was sent. */
    arriveAt: async (path: string) => {
      await page.goto("about:blank");
      await page.goto(`${home}${path}`);
    },
    goTo: (path: string) => page.goto(`${home}${path}`),
    look: (view: "Scores" | "Archive") => shell.view(view).click(),
  };
}

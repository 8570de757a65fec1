import { execFile } from "node:child_process";
import { promisify } from "node:util";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Query, search } from "../../helpers/http/archive-proxy.ts";
import { serveSample } from "../../helpers/http/archive-served.ts";
import { findChromium, launch } from "../../helpers/servers/chromium.ts";
import { findProgram } from "../../helpers/servers/programs.ts";

const run = promisify(execFile);
const served = serveSample({ markets: 600 });
const [curl, python, chromium] = [findProgram("curl"), findProgram("python3"), findChromium()];

let browser: Browser | undefined;
let page: Page | undefined;
beforeAll(async () => {
  browser = chromium ? await launch(chromium) : undefined;
});
afterAll(() => browser?.close());

/** Reads an address as its own users do, and returns the text it makes of the answer. */
type Decoder = (url: string, headers: Record<string, string>) => Promise<string>;

const withCurl: Decoder = async (url, headers) => {
  const given = Object.entries(headers).flatMap(([name, value]) => ["-H", `${name}: ${value}`]);
  return (await run(curl!, ["-sS", "--fail", "--compressed", ...given, url], { maxBuffer: 2 ** 26 })).stdout;
};

const withFetch: Decoder = async (url, headers) => (await fetch(url, { headers })).text();

const withPython: Decoder = async (url, headers) => {
  const program = `import gzip, json, sys, urllib.request
url, headers = json.loads(sys.argv[1])
request = urllib.request.Request(url, headers={**headers, "Accept-Encoding": "gzip"})
sys.stdout.buffer.write(gzip.decompress(urllib.request.urlopen(request).read()))`;
  const { stdout } = await run(python!, ["-c", program, JSON.stringify([url, headers])], {
    maxBuffer: 2 ** 26,
  });
  return stdout;
};

const withChromium: Decoder = async (url, headers) => {
  // Empty, without a policy of its own: a page of another site.
  page ??= await browser!.newPage();
  return page.evaluate(async (asked) => (await fetch(asked.url, { headers: asked.headers })).text(), {
    url,
    headers,
  });
};

const decoders: [string, boolean, Decoder][] = [
  ["curl", curl !== undefined, withCurl],
  ["Node's fetch", true, withFetch],
  ["Python's gzip", python !== undefined, withPython],
  ["Chromium's fetch", chromium !== undefined, withChromium],
];

// Whole runs, cut ones, single markets of many runs, and nothing at all.
const queries: Query[] = [
  { pageSize: 160 },
  { pageSize: 159, page: 2 },
  { pageSize: 7, page: 3 },
  { pageSize: 160, disputed: "true" },
  { pageSize: 100, min_composite: 500, max_oracle: 60 },
  { page: 1000 },
];

describe.each(decoders)("%s", (_name, installed, decode) => {
  test.skipIf(!installed).each(queries)(
    "reads %o, put together and kept, as it is without gzip",
    async (query) => {
      const url = `${served.proxy.address}?${search(query)}`;
      const { text } = await served.proxy.get(query);
      expect(await decode(url, served.proxy.headers)).toBe(text);
      expect(await decode(url, served.proxy.headers)).toBe(text);
    },
  );
});

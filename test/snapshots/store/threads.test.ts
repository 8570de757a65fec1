import { afterEach, expect, test } from "vitest";
import { type CompressedPage, compressPage, pageText } from "../../../snapshots/format/page.ts";
import { askedBeforeThreads, Threads } from "../../../snapshots/store/thread.ts";

const pages = askedBeforeThreads + 26;
const worker = new URL("../../../snapshots/publish/page-worker.ts", import.meta.url).href;

const textOf = (page: number) =>
  pageText(
    Array.from({ length: 40 }, (_, n) =>
      Buffer.from(JSON.stringify({ id: `${page}-${n}`, é: "€".repeat(n) })),
    ),
  );

type Built = { page: CompressedPage; stored: Uint8Array };

let threads: Threads<Buffer, Built>;
const start = () => new Threads<Buffer, Built>(worker, "compresses pages", compressPage);
afterEach(() => threads[Symbol.asyncDispose]());

function build(page: number): Promise<Built> {
  const text = textOf(page);
  return threads.ask(text, [text.buffer]);
}

test("pages come out the same on whatever thread they are built", async () => {
  threads = start();
  const built = await Promise.all(Array.from({ length: pages }, (_, page) => build(page)));
  const bytes = built.map(({ page, stored }) => ({ page, stored: Buffer.from(stored) }));
  expect(bytes).toEqual(Array.from({ length: pages }, (_, page) => compressPage(textOf(page))));
});

test("pages under way fail when their thread ends, and so do those that come later", async () => {
  threads = start();
  const built = Array.from({ length: pages }, (_, page) => build(page));
  const results = Promise.allSettled(built);
  await threads[Symbol.asyncDispose]();
  const statuses = (await results).map(({ status }) => status);
  expect(statuses.slice(0, askedBeforeThreads)).not.toContain("rejected");
  expect(statuses.slice(askedBeforeThreads)).toContain("rejected");
  await expect(build(0)).rejects.toThrow("a thread that compresses pages ended with");
});

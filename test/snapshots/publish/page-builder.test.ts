import { afterEach, expect, test } from "vitest";
import { compressPage, pageText } from "../../../snapshots/format/page.ts";
import { PageBuilder, pagesBeforeThreads } from "../../../snapshots/publish/page-builder.ts";

const pages = pagesBeforeThreads + 26;

const textOf = (page: number) =>
  pageText(
    Array.from({ length: 40 }, (_, n) =>
      Buffer.from(JSON.stringify({ id: `${page}-${n}`, é: "€".repeat(n) })),
    ),
  );

let builder: PageBuilder;
afterEach(() => builder.close());

test("pages come out the same on whatever thread they are built", async () => {
  builder = new PageBuilder();
  const built = await Promise.all(Array.from({ length: pages }, (_, page) => builder.build(textOf(page))));
  expect(built).toEqual(Array.from({ length: pages }, (_, page) => compressPage(textOf(page))));
});

test("pages under way fail when their thread ends, and so do those that come later", async () => {
  builder = new PageBuilder();
  const built = Array.from({ length: pages }, (_, page) => builder.build(textOf(page)));
  const results = Promise.allSettled(built);
  await builder.close();
  const statuses = (await results).map(({ status }) => status);
  expect(statuses.slice(0, pagesBeforeThreads)).not.toContain("rejected");
  expect(statuses.slice(pagesBeforeThreads)).toContain("rejected");
  await expect(builder.build(textOf(0))).rejects.toThrow("a thread that compresses pages ended with");
});

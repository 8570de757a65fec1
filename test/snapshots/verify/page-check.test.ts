import { afterEach, expect, test } from "vitest";
import { feedVersion } from "../../../schemas/versions.ts";
import { compressPage } from "../../../snapshots/format/page.ts";
import { leafHash, pageRootOf } from "../../../snapshots/format/tree.ts";
import { askedBeforeThreads, judgePage, PageCheck } from "../../../snapshots/verify/page-check.ts";
import { recordsOf } from "../../helpers/publish/records.ts";

const pages = askedBeforeThreads + 26;

/** Some say another root than they have. */
async function askedPage(number: number) {
  const lines = recordsOf(number, number + 3).map((market) => Buffer.from(JSON.stringify(market)));
  const { page, stored } = await compressPage(lines);
  const leaves = (number % 5 === 0 ? lines : lines.toReversed()).map(leafHash);
  const root = pageRootOf(leaves).toString("hex");
  return { pageKey: `page ${number}`, segmentKey: "segment", stored, page: { ...page, root }, feedVersion };
}
const asked = await Promise.all(Array.from({ length: pages }, (_, number) => askedPage(number)));

let threads: PageCheck;
afterEach(() => threads[Symbol.asyncDispose]());

test("pages are judged the same on whatever thread that is", async () => {
  threads = new PageCheck();
  const judged = await Promise.all(asked.map((one) => threads.ask(one)));
  expect(judged).toEqual(asked.map(judgePage));
  expect(judged[askedBeforeThreads + 1]).toMatchObject({ key: "segment" });
});

test("pages under way fail when their thread ends, and so do those that come later", async () => {
  threads = new PageCheck();
  const results = Promise.allSettled(asked.map((one) => threads.ask(one)));
  await threads[Symbol.asyncDispose]();
  const statuses = (await results).map(({ status }) => status);
  expect(statuses.slice(0, askedBeforeThreads)).not.toContain("rejected");
  expect(statuses.slice(askedBeforeThreads)).toContain("rejected");
  await expect(threads.ask(asked[0]!)).rejects.toThrow("a thread that checks pages ended with");
});

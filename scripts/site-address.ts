import { layout } from "../snapshots/store/layout.ts";
import { collected } from "../snapshots/store/storage.ts";
import { reasonOf } from "./service.ts";

const siteFile = layout.siteFile("api.json").slice(layout.publicTree.length);
const seconds = 5;

/** Says what is wrong when the address of a public tree lacks a file that every publish writes. */
export async function siteFaultAt(siteUrl: string): Promise<string | undefined> {
  const address = siteUrl + siteFile;
  const fault = await faultAt(address, /^\{.*"(?:api|site)":/s);
  return (
    fault &&
    `${address} ${fault}, so links, badges and frames lead nowhere. With the CDNs of .github/deploy, which serve the ` +
      "public tree below /public/, --site-url is https://HOST/public."
  );
}

/** Says what is wrong with the answer of an address that should match; undefined when nothing is. */
export async function faultAt(address: string, expected: RegExp): Promise<string | undefined> {
  try {
    const answer = await fetch(address, { signal: AbortSignal.timeout(seconds * 1000) });
    const body = await collected((answer.body ?? []) as AsyncIterable<Uint8Array>, 65_536, () => {
      throw new Error("it is too long");
    });
    if (!answer.ok) return `answers ${answer.status}`;
    return expected.test(String(body)) ? undefined : "is another file";
  } catch (error) {
    return `cannot be had from here (${reasonOf(error)})`;
  }
}

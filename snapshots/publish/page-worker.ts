import { parentPort } from "node:worker_threads";
import { compressPage } from "../format/page.ts";

// A thread of PageBuilder: takes texts of pages, and answers each, in their order, with the page.
parentPort!.on("message", (text: Uint8Array) => {
  const { page, stored } = compressPage(Buffer.from(text.buffer, text.byteOffset, text.byteLength));
  // A copy of its own can be handed over; a small buffer is part of one that is shared.
  const bytes = new Uint8Array(stored);
  parentPort!.postMessage({ page, bytes }, [bytes.buffer]);
});

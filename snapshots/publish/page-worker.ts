import { parentPort } from "node:worker_threads";
import { compressPage } from "../format/page.ts";

// Worker thread of ArchiveWriter: answers every page text, in order, with the compressed page.
parentPort!.on("message", (text: Uint8Array) => {
  const { page, stored } = compressPage(Buffer.from(text.buffer, text.byteOffset, text.byteLength));
  // Small buffers share one pooled ArrayBuffer, which cannot be transferred. A copy can.
  const bytes = new Uint8Array(stored);
  parentPort!.postMessage({ page, stored: bytes }, [bytes.buffer]);
});

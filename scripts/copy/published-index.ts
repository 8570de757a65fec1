import { MarketIndex } from "../../schemas/envelopes.ts";
import { maxHeaderBytes, maxWordsBytes } from "../../snapshots/format/maxima.ts";
import { sha256 } from "../../snapshots/format/sha256.ts";

/** Enough for an answer with the most segments that a snapshot can have. */
const maxListBytes = 2 ** 23;
const deadline = 60_000;

/** The index that a service published. It is asked for only to name what is wrong with it. */
export class PublishedIndex {
  readonly #base: string;
  readonly #key: string;

  constructor({ url, key }: { url: string; key: string }) {
    this.#base = `${url.replace(/(\/api\/v1)?\/*$/, "")}/api/v1/markets/index`;
    this.#key = key;
  }

  /** The parts of a snapshot's index, by segment, from the oldest up. */
  async segments(snapshotId: string): Promise<MarketIndex["segments"]> {
    const text = await this.#get(`?asOf=${snapshotId}`, maxListBytes);
    return MarketIndex.parse(JSON.parse(String(text))).segments;
  }

  /** Rejects when other bytes than those of the hash come. */
  header(hash: string): Promise<Buffer> {
    return this.#part(hash, maxHeaderBytes);
  }

  /** Rejects as header does. */
  words(hash: string): Promise<Buffer> {
    return this.#part(hash, maxWordsBytes);
  }

  async #part(hash: string, maxBytes: number): Promise<Buffer> {
    const part = await this.#get(`/${hash}`, maxBytes);
    if (sha256(part) !== hash) throw new Error("what came is not the part that was asked for");
    return part;
  }

  async #get(target: string, maxBytes: number): Promise<Buffer> {
    const answer = await fetch(this.#base + target, {
      headers: { "x-api-key": this.#key },
      signal: AbortSignal.timeout(deadline),
    });
    const parts: Uint8Array[] = [];
    let bytes = 0;
    for await (const part of answer.body ?? []) {
      parts.push(part);
      bytes += part.length;
      if (bytes > maxBytes) throw new Error(`more than ${maxBytes} bytes came`);
    }
    if (!answer.ok) throw new Error(`it answered with status ${answer.status}`);
    return Buffer.concat(parts);
  }
}

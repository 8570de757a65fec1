import type { Tiers } from "../../../../schemas/store/snapshot.ts";
import { toHex } from "../../../../snapshots/format/bytes.ts";
import { Client } from "../../client/client.ts";
import { absolute, request } from "./request.ts";

/** Enough for a list and the protocols that are compared. */
const kept = 8;

/** The files beside the page, where it is published without the service. */
export class Files {
  /**
   * The files that were read last, by their addresses. A citation is about these bytes, whatever lies there by then.
   */
  #read = new Map<string, Promise<ArrayBuffer>>();

  client = new Client({
    url: absolute("api/v1"),
    retries: 0,
    fetch: async (address, how) => {
      const file = `${address}.json`;
      const response = await request(file, how);
      if (response.ok) this.#keep(file, response.clone());
      return response;
    },
  });

  #keep(address: string, copy: Response) {
    this.#read.delete(address);
    this.#read.set(address, copy.arrayBuffer());
    const [oldest] = this.#read.keys();
    if (this.#read.size > kept && oldest) this.#read.delete(oldest);
  }

  /**
   * The SHA-256 of what was read of a file, in hexadecimal digits; undefined where it is not known, or cannot be
   * computed.
   * @param path below the API
   */
  async hashOf(path: string) {
    const bytes = await this.#read.get(absolute(`api/v1/${path}.json`));
    // Browsers have it on secure origins only.
    if (!bytes || !crypto.subtle) return undefined;
    return toHex(new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)));
  }

  async tiers(signal: AbortSignal): Promise<Tiers> {
    const response = await request(absolute("tiers.json"), { signal });
    if (!response.ok) throw new Error("The changes of tier cannot be read at present.");
    return response.json();
  }
}

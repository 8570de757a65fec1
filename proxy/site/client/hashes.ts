import { bytesOf } from "../../../snapshots/format/bytes.ts";
import { treesBy, webSha256 } from "./trees.ts";

/** What Node tells of itself, undefined elsewhere. */
const node = (
  globalThis as {
    process?: {
      getBuiltinModule?: (name: string) => {
        hash?: (name: "sha256", bytes: Uint8Array, encoding: "buffer") => Uint8Array;
      };
      versions?: { unicode?: string };
    };
  }
).process;
// On small inputs, of which there are thousands, it is several times as fast as Web Crypto.
const nodeHash = node?.getBuiltinModule?.("node:crypto")?.hash;

/** The version of Unicode, where the platform tells it. */
export const ownUnicode: string | undefined = node?.versions?.unicode;

export const sha256 = (bytes: Uint8Array): Uint8Array | Promise<Uint8Array> =>
  nodeHash?.("sha256", bytes, "buffer") ?? webSha256(bytes as Uint8Array<ArrayBuffer>);

export const trees = treesBy(sha256);

/** The first 32 bits of an id's hash. */
export async function idHash(id: string): Promise<number> {
  const hash = await sha256(bytesOf(id));
  return new DataView(hash.buffer, hash.byteOffset).getUint32(0);
}

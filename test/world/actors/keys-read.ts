import { KeyRecord, KeyRevocation } from "../../../schemas/store/stored-objects.ts";
import { keyIdOf } from "../../../snapshots/keys/keys.ts";
import { isKeyRevocation, layout } from "../../../snapshots/store/layout.ts";
import { unseal } from "../../../snapshots/store/objects.ts";
import { StorageError } from "../../../snapshots/store/storage.ts";
import { must, Violation } from "../kernel/kernel.ts";
import type { Store } from "../kernel/store.ts";
import type { KeysRead, Server, World } from "../world.ts";

/** What the store says of its keys now, in plain words: whom it knows, and when each ends. */
export function keysIn({ objects }: Store): KeysRead {
  const read: KeysRead = { known: new Set(), ends: new Map() };
  for (const [key, { bytes }] of objects) {
    if (!key.startsWith(layout.key.prefix)) continue;
    const found = soundIn(key, bytes);
    // What a thief has put there counts for nothing.
    if (found?.id !== keyIdOf(key)) continue;
    const { id, end } = found;
    if (!isKeyRevocation(key)) read.known.add(id);
    if (end) read.ends.set(id, Math.min(Date.parse(end), read.ends.get(id) ?? Number.POSITIVE_INFINITY));
  }
  return read;
}

/** The key that an object tells of, and when it ends; undefined where a thief has damaged it. */
function soundIn(key: string, bytes: Buffer): { id: string; end: string | undefined } | undefined {
  try {
    if (!isKeyRevocation(key)) {
      const { id, expiresAt: end } = unseal(key, bytes, KeyRecord);
      return { id, end };
    }
    const { id, revokedAt: end } = unseal(key, bytes, KeyRevocation);
    return { id, end };
  } catch {
    return undefined;
  }
}

/** Reads the keys of the store again, as a poll does. */
export async function reloadKeys({ kernel, store }: World, server: Server): Promise<void> {
  const read = keysIn(store);
  try {
    await server.keys.reload();
    server.read = read;
  } catch (error) {
    if (error instanceof Violation) throw error;
    must("every error is a documented one", error instanceof StorageError, () => `${error}`);
    kernel.note(`${server.process.name} cannot read all keys`);
  }
}

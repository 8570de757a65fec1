import { KeyRecord, KeyRevocation } from "../../schemas/store/keys.ts";
import { PartRecord, PartsPlan } from "../../schemas/store/parts.ts";
import { Collecting } from "../../schemas/store/snapshot.ts";
import { renderProtocol, slugOfArtefact } from "../artefacts/artefacts.ts";
import { cardKey, drawCard } from "../artefacts/card.ts";
import { recordAt, scoreListAt } from "../publish/public/artefacts.ts";
import type { Named } from "../publish/public/site.ts";
import { CorruptObjectError } from "../store/errors.ts";
import { isKeyRevocation, layout, sha256 } from "../store/layout.ts";
import { tileNamed } from "../store/log/public-log.ts";
import { unseal } from "../store/objects.ts";
import type { SnapshotCheck } from "./snapshot-check.ts";
import type { StoreCheck } from "./store-check.ts";

interface Known {
  keys: boolean;
  snapshots: SnapshotCheck;
  named: Named;
}

/**
 * Checks what no other check has seen: key records, collections and runs in parts that are under way, and objects that
 * no commit reaches. Returns how many objects no commit reaches.
 */
export async function checkRemaining(check: StoreCheck, known: Known): Promise<number> {
  let unreferenced = 0;
  for await (const { key } of check.storage.list("")) {
    if (check.hasSeen(key)) continue;
    if (key.startsWith(layout.key.prefix)) {
      if (known.keys) await check.attemptRecord(key, (bytes) => checkKey(key, bytes));
      continue;
    }
    if (key.startsWith(layout.collecting.prefix)) {
      // A collection may have deleted it since it was listed.
      await check.attempt(async () => {
        const bytes = await check.storage.get(key);
        if (bytes) unseal(key, bytes, Collecting);
      });
      continue;
    }
    if (key.startsWith(layout.runPlan.prefix)) {
      const schema = key.endsWith("/plan.json") ? PartsPlan : PartRecord;
      await check.attemptRecord(key, (bytes) => void unseal<PartsPlan | PartRecord>(key, bytes, schema));
      continue;
    }
    if (!(check.hidesPages && key.startsWith(layout.page.prefix))) unreferenced += 1;
    await check.attempt(() => checkUnreferenced(check, key, known));
  }
  return unreferenced;
}

function checkKey(key: string, bytes: Buffer): void {
  if (!namesOfKey(key, bytes).includes(key))
    throw new CorruptObjectError(key, "it holds another key's record");
}

/** The names that the content of an object under keys/ allows. */
function namesOfKey(key: string, bytes: Buffer): string[] {
  if (!isKeyRevocation(key)) return [layout.key(unseal(key, bytes, KeyRecord).id)];
  const { id, revokedAt } = unseal(key, bytes, KeyRevocation);
  return [layout.keyRevocation(id), layout.keyRevocation(id, Date.parse(revokedAt))];
}

async function checkUnreferenced(check: StoreCheck, key: string, { snapshots, named }: Known): Promise<void> {
  const bytes = await check.storage.get(key);
  if (!bytes) return;
  check.count(key, bytes.length);
  const hash = /\/([0-9a-f]{64})(\.json(\.gz)?|\.parquet)?$/.exec(key)?.[1];
  if (hash && sha256(bytes) !== hash)
    throw new CorruptObjectError(key, "its content does not match its name");
  // The log may have grown since it was checked, or was longer once.
  if (hash || tileNamed(key)) return;
  // The name of a removed protocol stays with its last content until it is collected.
  const leftover = key.startsWith(layout.stableScore.prefix) && snapshots.published.has(sha256(bytes));
  if (!leftover && !(await isLeftArtefact(check, key, bytes, { snapshots, named })))
    throw new CorruptObjectError(key, "a store has no objects with such names");
}

/** Whether it shows a removed protocol, or an earlier score of one, as a kept snapshot has it. */
async function isLeftArtefact(
  { storage }: StoreCheck,
  key: string,
  bytes: Buffer,
  { snapshots, named: { site, ...others } }: Omit<Known, "keys">,
): Promise<boolean> {
  const slug = slugOfArtefact(key);
  if (site === null || slug === undefined) return false;
  for (const { scores } of snapshots.manifests) {
    const ref = Object.hasOwn(scores.records, slug) && scores.records[slug];
    if (!ref) continue;
    const record = await recordAt(storage, ref);
    if (key === cardKey(slug, ref.hash)) return drawCard(record).equals(bytes);
    const list = await scoreListAt(storage, scores.list);
    const shown = new Map(renderProtocol({ ...others, site }, { record, hash: ref.hash }, list));
    if (shown.get(key)?.equals(bytes)) return true;
  }
  return false;
}

import { ScoreList } from "../../../schemas/envelopes.ts";
import { listEntryOf, ProtocolScore, type ScoreListEntry } from "../../../schemas/records.ts";
import type { CommitEntry, Manifest, NamedObject, Tiers } from "../../../schemas/store/snapshot.ts";
import type { Addresses } from "../../artefacts/addresses.ts";
import { renderArtefacts, type StoredScore } from "../../artefacts/artefacts.ts";
import { cardKey, drawCard } from "../../artefacts/card.ts";
import { readTiers, tiersAfter } from "../../artefacts/tiers.ts";
import { soundExports } from "../../export/export-records.ts";
import { CorruptObjectError, unless } from "../../store/errors.ts";
import { inParallel } from "../../store/in-parallel.ts";
import { layout, maxOrdinaryBytes } from "../../store/layout.ts";
import { parseObject, readObject, referTo } from "../../store/objects.ts";
import type { Storage } from "../../store/storage.ts";
import type { Trust } from "../../trust/trust.ts";
import { renderList } from "../score-objects.ts";

/** By key. */
export interface Artefacts {
  files: Map<string, Buffer>;
  /** Draws the card of each protocol. The key says what a card shows, so each is drawn only once. */
  cards: Map<string, () => Buffer>;
}

/**
 * What changed follows from the tiers that the public tree shows. With an API the artefacts describe the newest export,
 * with `trust` the newest that a trusted key signed. `inMemory` holds objects by hash that need not be read.
 */
export async function artefactsAt(
  storage: Storage,
  newest: CommitEntry,
  { scores }: Pick<Manifest, "scores">,
  addresses: Addresses,
  trust: Trust | undefined,
  inMemory: ReadonlyMap<string, Buffer> = new Map(),
): Promise<Artefacts> {
  const { commit, publishedAt } = newest;
  const [exported] = addresses.api === null ? [] : await soundExports(storage, newest, trust);
  const stored: StoredScore[] = [];
  await inParallel(Object.values(scores.records), async (ref) => {
    stored.push({ hash: ref.hash, record: await recordAt(storage, ref, inMemory.get(ref.hash)) });
  });
  stored.sort((a, b) => (a.record.slug < b.record.slug ? -1 : 1));
  const records = stored.map(({ record }) => record);
  const tiers = tiersAfter(await storedTiers(storage), records, publishedAt);
  const { list, newestUpdatedAt } = renderList(records.map(listEntryOf));
  const facts = { list: referTo(list), commit, exported, newestUpdatedAt };
  return {
    files: renderArtefacts(addresses, stored, tiers, facts),
    cards: new Map(stored.map(({ record, hash }) => [cardKey(record.slug, hash), () => drawCard(record)])),
  };
}

export async function recordAt(
  storage: Storage,
  ref: NamedObject,
  inMemory?: Buffer,
): Promise<ProtocolScore> {
  const key = layout.publicObject(ref.hash);
  return parseObject(key, inMemory ?? (await readObject(storage, key, ref)), ProtocolScore);
}

export async function scoreListAt(storage: Storage, ref: NamedObject): Promise<ScoreListEntry[]> {
  const key = layout.publicObject(ref.hash);
  return parseObject(key, await readObject(storage, key, ref), ScoreList).scores;
}

/** As the public tree shows them; undefined when it has none that can be read. */
function storedTiers(storage: Storage): Promise<Tiers | undefined> {
  return unless(CorruptObjectError, async () =>
    readTiers(await storage.get(layout.tiers, { maxBytes: maxOrdinaryBytes })),
  );
}

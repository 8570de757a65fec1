import { ScoreList } from "../../../schemas/envelopes.ts";
import { listEntryOf, ProtocolScore, type ScoreListEntry } from "../../../schemas/records.ts";
import type {
  Commit,
  CommitEntry,
  Manifest,
  NamedObject,
  Tiers,
} from "../../../schemas/store/stored-objects.ts";
import {
  artefactsOf,
  readTiers,
  renderArtefacts,
  type StoredScore,
  tiersAfter,
} from "../../artefacts/artefacts.ts";
import { cardKey, drawCard } from "../../artefacts/card.ts";
import type { Addresses } from "../../artefacts/dataset.ts";
import { soundExports } from "../../export/export-records.ts";
import { CorruptObjectError, MissingObjectError, unless } from "../../store/errors.ts";
import { inParallel } from "../../store/in-parallel.ts";
import { artefactFolders, layout, maxOrdinaryBytes, sha256 } from "../../store/layout.ts";
import { readManifest } from "../../store/manifest.ts";
import { parseObject, readObject, referTo } from "../../store/objects.ts";
import { type Storage, StorageError } from "../../store/storage.ts";
import { type RunLog, type Signing, trustOf } from "../../trust/log/believe.ts";
import { newestTrustedFrom, type Trust } from "../../trust/trust.ts";
import { renderList } from "../score-objects.ts";
import { updateLog, type Witnessed } from "./log.ts";
import {
  listPublicTree,
  type Named,
  nothingNamed,
  type PublicTree,
  publishedNames,
  type Site,
} from "./site.ts";

export interface SiteOptions {
  /** Without one, the store's site files stay as they are. */
  site?: Site | undefined;
  /**
   * What the store names from now on, null for nothing. What is undefined stays as it is: otherwise badges that a run
   * passed over would go on showing old scores.
   */
  names?: { [Name in keyof Named]?: Named[Name] | undefined } | undefined;
  /** A run with a key shows the newest commit that it trusts. */
  signing?: Signing | undefined;
  /** Keys of objects that are known to be damaged. They are written again even though the store lists them. */
  faulty?: ReadonlySet<string> | undefined;
}

/** The newest commit that a run knows of, and what it has at hand, so that it need not be read again. */
interface AtHand {
  commit: Commit;
  /** The log as it was when the run began, if that commit was its newest. */
  log?: RunLog | undefined;
  manifest?: Pick<Manifest, "scores">;
  /** By hash. */
  objects?: ReadonlyMap<string, Buffer>;
}

/** The newest commit, and the public tree as it was listed before that was found. */
interface PublicState {
  /** What the publisher of a later commit changes after the listing has another tag. */
  tree: PublicTree;
  commit: Commit;
}

/** Another round is needed only when another publisher changed something meanwhile. */
const maxRounds = 16;

/**
 * Updates the public log, its checkpoint, the public names and the artefacts to the newest commit, and the site to this
 * version. Returns the commit's number, and what the witnesses made of its checkpoint. Readers of snapshots need none
 * of these objects, and the next run repeats what was interrupted.
 */
export async function updateMutableObjects(
  storage: Storage,
  { site, signing = {}, faulty, names = {} }: SiteOptions,
  atHand: AtHand,
): Promise<{ commit: number; witnessed: Witnessed[] }> {
  // Nobody trusts what a run makes without a key, yet it has to be shown.
  const trust = signing.key && trustOf(signing);
  /** Lists the public tree, unless `listing` has done so, and finds the newest commit. `before` was the newest. */
  const showNewest = async (before: Commit, listing?: Storage): Promise<PublicState> => ({
    tree: await listPublicTree(storage, faulty, listing),
    commit: await newestTrustedFrom(storage, before, trust),
  });
  const { commit: start } = atHand;
  let { log } = atHand;
  let state = await showNewest(start, log?.storage);
  if (log && state.commit.digest !== start.digest) {
    log = undefined;
    state = await showNewest(start);
  }
  const { tree } = state;
  const witnessed = await updateLog(tree, state.commit, signing, log);
  const named = await namedIn(tree, site, names);
  const addresses = named.site === null ? undefined : { ...named, site: named.site };

  /**
   * Updates the stable names of the public tree to the newest commit, or to a later one that is the newest meanwhile.
   * With `addresses` the artefacts are updated too. Contents are always compared, since a publisher that was stopped or
   * delayed may have left anything there. Names of removed protocols stay until the next collection, because publishers
   * may not delete.
   */
  async function updatePublicNames(): Promise<number> {
    for (let round = 0; round < maxRounds; round += 1) {
      const { commit } = state;
      const isStillNewest = async () =>
        (await newestTrustedFrom(storage, commit, trust)).entry.commit === commit.entry.commit;
      let outcome: NamesUpdate = "disturbed";
      try {
        outcome = await updateNamesTo(state, atHand, addresses, trust);
      } catch (error) {
        // Once a later commit stands, a collection may delete what only this one reaches.
        if (!(error instanceof MissingObjectError) || (await isStillNewest())) throw error;
      }
      if (outcome === "same") return commit.entry.commit;
      // A later commit may have kept a name that this round has just replaced, so its publisher would not put it right.
      if (outcome === "changed" && (await isStillNewest())) return commit.entry.commit;
      state = await showNewest(commit);
    }
    throw new StorageError(`${storage.location}: other publishers keep changing the public names; run again`);
  }

  const commit = await updatePublicNames();
  const { api, ...others } = named;
  const files = (await site?.files(api, others)) ?? [];
  await inParallel(files, ([key, bytes]) => tree.putIfDifferent(key, bytes));
  return { commit, witnessed };
}

/** Names that the run is not given are those that the store has. */
async function namedIn(
  tree: PublicTree,
  site: Site | undefined,
  names: NonNullable<SiteOptions["names"]>,
): Promise<Named> {
  const defined = Object.fromEntries(Object.entries(names).filter(([, value]) => value !== undefined));
  const complete = (before: Named): Named => ({ ...before, ...defined });
  const { api: alone, ...others } = complete(nothingNamed);
  const file = layout.siteFile("api.json");
  const expected = (await site?.files(alone, others))?.get(file);
  // Mostly the store names nothing else, so it need not be read.
  if (expected && (await tree.holds(file, expected))) return { api: alone, ...others };
  return complete(await publishedNames(tree.storage));
}

/** "same": nothing was out of date. "disturbed": another publisher changed one of the names meanwhile. */
type NamesUpdate = "same" | "changed" | "disturbed";

/** Brings the names, and with `addresses` the artefacts, to a commit. */
async function updateNamesTo(
  { tree, commit }: PublicState,
  atHand: AtHand,
  addresses: Addresses | undefined,
  trust: Trust | undefined,
): Promise<NamesUpdate> {
  const { storage } = tree;
  const isAtHand = atHand.commit.digest === commit.digest;
  const manifest = (isAtHand && atHand.manifest) || (await readManifest(storage, commit));
  const names = publicNames(manifest);
  const inMemory = new Map(atHand.objects);
  const artefacts =
    addresses && (await artefactsAt(storage, commit.entry, manifest, addresses, trust, atHand.objects));
  let changed = false;
  // Before the pages that name them.
  await inParallel(artefacts?.cards ?? [], async ([key, draw]) => {
    if (tree.faulty.has(key) || !(await tree.infoOf(key))) await tree.putIfDifferent(key, draw());
  });
  for (const [key, bytes] of artefacts?.files ?? []) {
    const ref = referTo(bytes);
    inMemory.set(ref.hash, bytes);
    if (artefactFolders.some((folder) => key.startsWith(folder))) names.set(key, ref);
    else if (await tree.putIfDifferent(key, bytes)) changed = true;
  }
  const put = await inParallel(names, async ([key, ref]) => {
    const info = await tree.infoOf(key);
    const own = inMemory.get(ref.hash);
    if (info && (await (own ? tree.holds(key, own) : nameHolds(storage, key, ref)))) return undefined;
    const bytes = own ?? (await readObject(storage, layout.publicObject(ref.hash), ref));
    return info ? storage.replace(key, bytes, info.tag) : storage.putIfAbsent(key, bytes);
  });
  if (put.includes(false)) return "disturbed";
  return changed || put.includes(true) ? "changed" : "same";
}

async function nameHolds(storage: Storage, key: string, { hash }: NamedObject): Promise<boolean> {
  const maxBytes = layout.publicObject.maxBytes!;
  const stored = await unless(CorruptObjectError, () => storage.get(key, { maxBytes }));
  return stored !== undefined && sha256(stored) === hash;
}

/** By key. */
export function publicNames({ scores }: Pick<Manifest, "scores">): Map<string, NamedObject> {
  const records = Object.entries(scores.records).map(
    ([slug, ref]) => [layout.stableScore(slug), ref] as const,
  );
  return new Map([[layout.stableScoreList, scores.list], ...records]);
}

/** The keys that this manifest's protocols keep: their stable names and their artefacts. */
export function namesOfProtocols(manifest: Pick<Manifest, "scores">): string[] {
  const artefacts = Object.entries(manifest.scores.records).flatMap(([slug, { hash }]) => [
    ...artefactsOf(slug),
    cardKey(slug, hash),
  ]);
  return [...publicNames(manifest).keys(), layout.protocolList, layout.listEmbed, ...artefacts];
}

/**
 * The artefacts by key. What changed follows from the tiers that the public tree shows. With an API the artefacts
 * describe the newest export, with `trust` the newest that a trusted key signed. `inMemory` holds objects by hash that
 * need not be read.
 */
export async function artefactsAt(
  storage: Storage,
  newest: CommitEntry,
  { scores }: Pick<Manifest, "scores">,
  addresses: Addresses,
  trust: Trust | undefined,
  inMemory: ReadonlyMap<string, Buffer> = new Map(),
) {
  const { commit, publishedAt } = newest;
  const [exported] = addresses.api === null ? [] : await soundExports(storage, newest, trust);
  const stored = await inParallel(Object.values(scores.records), async (ref): Promise<StoredScore> => {
    return { hash: ref.hash, record: await recordAt(storage, ref, inMemory.get(ref.hash)) };
  });
  stored.sort((a, b) => (a.record.slug < b.record.slug ? -1 : 1));
  const records = stored.map(({ record }) => record);
  const tiers = tiersAfter(await storedTiers(storage), records, publishedAt);
  const { list, newestUpdatedAt } = renderList(records.map(listEntryOf));
  const facts = { list: referTo(list), commit, exported, newestUpdatedAt };
  return {
    files: renderArtefacts(addresses, stored, tiers, facts),
    /** Draws the card of each protocol. The key says what a card shows, so each is drawn only once. */
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

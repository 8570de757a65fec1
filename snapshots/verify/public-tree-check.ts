import { createHash } from "node:crypto";
import type { ChangeFiles, ExportRecord, ParquetFile } from "../../schemas/store/stored-objects.ts";
import { artefactFiles } from "../artefacts/artefacts.ts";
import { readChunkHashes, readChunks, readExported } from "../export/export-records.ts";
import { artefactsAt, publicNames } from "../publish/public/mutable-objects.ts";
import { type Named, nothingNamed, publishedNames, type Site } from "../publish/public/site.ts";
import { CorruptObjectError, MissingObjectError, unless } from "../store/errors.ts";
import { artefactFolders, hashIn, layout, sha256 } from "../store/layout.ts";
import { readCommit } from "../store/log/commits.ts";
import { objectsIn } from "../store/objects.ts";
import type { Trust } from "../trust/trust.ts";
import type { CheckedCommit, CheckedLog } from "./log-check.ts";
import { publishAgain, type StoreCheck } from "./store-check.ts";

/** Stable names must hold what the newest manifest says. `published` has the hashes of all that they ever held. */
export async function checkPublicNames(
  check: StoreCheck,
  { commit: { entry }, manifest }: CheckedCommit,
  published: ReadonlySet<string>,
): Promise<void> {
  await check.each(publicNames(manifest), ([key, ref], part) =>
    part.attempt(async () => {
      const bytes = await check.storage.get(key);
      if (bytes) part.count(key, bytes.length);
      if (bytes && sha256(bytes) === ref.hash) return;
      // A publisher that stops after its commit leaves the content of an earlier snapshot, or nothing.
      const behind = !bytes || published.has(sha256(bytes));
      const reason = `projection behind commit ${entry.commit}`;
      throw new CorruptObjectError(key, behind ? reason : "its content belongs to no snapshot");
    }, publishAgain),
  );
}

/**
 * Checks that the site is this version's. The next publish run replaces any other content. Returns what the store
 * names. Without a `site` its files are only counted, and nothing named is returned.
 */
export async function checkSite(check: StoreCheck, site: Site | undefined): Promise<Named> {
  if (!site) {
    for (const prefix of [layout.siteIndex, layout.siteFile.prefix, ...artefactFolders, ...artefactFiles])
      await check.countOnly(prefix);
    return nothingNamed;
  }
  const named = await publishedNames(check.storage);
  const { api, ...others } = named;
  const files = await site.files(api, others);
  await checkFiles(check, files, "it differs from this version's file");
  return named;
}

/**
 * Only where the store names an address for them. Artefacts follow from the newest commit, the newest export and the
 * tiers beside them.
 */
export async function checkArtefacts(
  check: StoreCheck,
  { commit, manifest }: CheckedCommit,
  { site, ...named }: Named,
  trust: Trust | undefined,
): Promise<void> {
  if (site === null) return;
  const addresses = { ...named, site };
  const expected = await check.attempt(() =>
    artefactsAt(check.storage, commit.entry, manifest, addresses, trust),
  );
  if (!expected) return;
  const difference = `it differs from what commit ${commit.entry.commit} shows`;
  await checkFiles(check, expected.files, difference);
  await check.each(expected.cards, ([key, draw], part) =>
    checkFiles(part, new Map([[key, draw()]]), difference),
  );
}

async function checkFiles(
  check: StoreCheck,
  files: ReadonlyMap<string, Buffer>,
  difference: string,
): Promise<void> {
  await check.each(files, ([key, bytes], part) =>
    part.attemptRecord(
      key,
      (stored) => {
        if (!stored.equals(bytes)) throw new CorruptObjectError(key, difference);
      },
      publishAgain,
    ),
  );
}

/**
 * Checks the records of all exports and exported changes, and every byte of their files. Records must have a signature
 * that `trust` accepts.
 */
export async function checkExports(
  check: StoreCheck,
  { commits, last }: Pick<CheckedLog, "commits" | "last">,
  trust: Trust | undefined,
): Promise<void> {
  const { storage } = check;
  const checked = new Set<string>();
  const requireCommitOf = async (key: string, record: ExportRecord) => {
    const later = () => unless(CorruptObjectError, () => readCommit(storage, record.commit));
    const commit = record.commit > last ? await later() : commits.get(record.commit);
    const rows = record.files.reduce((sum, file) => sum + file.rows, 0);
    // Commits before the oldest one in the store may be gone.
    const agrees = commit
      ? commit.entry.snapshotId === record.snapshotId &&
        commit.entry.archiveRoot === record.archiveRoot &&
        commit.entry.publishedAt === record.publishedAt &&
        commit.entry.counts.markets === rows
      : record.commit < (commits.keys().next().value ?? Number.POSITIVE_INFINITY);
    if (!agrees) throw new CorruptObjectError(key, "it disagrees with its commit");
  };
  for (const kind of [layout.exportedChanges, layout.exportRecord])
    await check.each(storage.list(kind.prefix), async ({ key, bytes }, part) => {
      const record = await part.attempt(async () => {
        const exported = await readExported<ExportRecord | ChangeFiles>(storage, kind, hashIn(key));
        if (!exported) throw new MissingObjectError(key);
        const refusal = trust?.refusalOf(kind(hashIn(key)), exported);
        if (refusal) throw refusal;
        if ("snapshotId" in exported) await requireCommitOf(key, exported);
        return exported;
      });
      if (record) part.count(key, bytes);
      for (const file of record?.files ?? []) {
        if (checked.has(file.hash)) continue;
        checked.add(file.hash);
        await part.attempt(() => checkFile(part, file));
      }
    });
}

async function checkFile(check: StoreCheck, file: ParquetFile): Promise<void> {
  const key = layout.exportFile(file.hash);
  const hashes = await readChunkHashes(objectsIn(check.storage), file);
  check.count(layout.exportChunks(file.chunks.hash), hashes.length);
  const whole = createHash("sha256");
  for await (const bytes of readChunks(check.storage, file, hashes, { offset: 0, bytes: file.bytes }))
    whole.update(bytes);
  if (whole.digest("hex") !== file.hash)
    throw new CorruptObjectError(key, "its content does not match its name");
  check.count(key, file.bytes);
}

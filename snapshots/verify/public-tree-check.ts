import { artefactFiles } from "../artefacts/artefacts.ts";
import { artefactsAt } from "../publish/public/artefacts.ts";
import { publicNames } from "../publish/public/names.ts";
import { type Named, nothingNamed, publishedNames, type Site } from "../publish/public/site.ts";
import { CorruptObjectError } from "../store/errors.ts";
import { artefactFolders, layout, sha256 } from "../store/layout.ts";
import type { Trust } from "../trust/trust.ts";
import type { CheckedCommit } from "./log-check.ts";
import { publishAgain, type StoreCheck } from "./store-check.ts";

/**
 * Checks that the stable names hold what the newest manifest says. `published` has the hashes of all that they ever
 * held.
 */
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

import { realpath } from "node:fs/promises";
import { publishedSite } from "../../proxy/site/files.ts";
import { exportSnapshot } from "../../snapshots/maintain/export.ts";
import type { PublishReport } from "../../snapshots/publish/commit-snapshot.ts";
import type { PublishOptions } from "../../snapshots/publish/publish.ts";
import { lateRule } from "../../snapshots/sources/contract/source-tables.ts";
import {
  type NamedContent,
  type OpenSources,
  type Refusal,
  SourceRefusal,
} from "../../snapshots/sources/sources.ts";
import { describeClocks } from "../../snapshots/store/log/commits.ts";
import type { Storage } from "../../snapshots/store/storage.ts";
import type { Signing } from "../../snapshots/trust/log/believe.ts";
import { type ExitCode, progressOn, requiredOption, type Shell } from "../cli.ts";
import { flag, number, text, type ValuesOf } from "../program.ts";
import { sourcesAt, sourcesLocation } from "../sources.ts";
import { unsignedOption } from "../store.ts";
import { withTemporaryFolder } from "../temporary.ts";

/** Options that let a guard pass, end a hold, or let signatures end. */
export const allowing = {
  "allow-removed": number("lets a guard pass that printed this number of removed markets and protocols", {
    min: 0,
  }),
  "allow-changed": number("lets a guard pass that printed this number of changed markets", { min: 0 }),
  "allow-added": number("lets a guard pass that printed this number of added markets", { min: 0 }),
  resume: flag("goes on after a rollback"),
  ...unsignedOption,
};

export const sourcesOption = text(
  "SOURCES",
  "where the Parquet files are, or a DuckDB script *.sql that leaves the tables",
);

export function readPublishing(
  shell: Shell,
  { sources, resume = false, ...values }: ValuesOf<typeof allowing & { sources: typeof sourcesOption }>,
) {
  const { "allow-removed": removed, "allow-changed": changed, "allow-added": added } = values;
  const allow = { removed, changed, added };
  return { location: sourcesLocation(shell, requiredOption("sources", sources)), allow, resume };
}

/**
 * Warns about clocks when sources were refused for times that lie in the future: this machine's clock may be behind.
 */
async function warnOfClock(shell: Shell, storage: Storage, error: unknown): Promise<void> {
  const late = ({ rule }: Refusal) => rule.startsWith(lateRule);
  if (!(error instanceof SourceRefusal) || !error.refusals.some(late)) return;
  const clocks = await describeClocks(storage, new Date()).catch(() => "the store does not tell its time");
  shell.warn(`times are too late: ${clocks}`);
}

/** The options of a run besides its sources, its store and what the guards may let pass. */
type More = Pick<PublishOptions, "names" | "signing" | "dryRun" | "faulty">;

/** Publishes, or makes a `step` of it. Also returns which files the sources were. */
export type PublishWith = <Report>(
  step: (options: PublishOptions) => Promise<Report>,
) => Promise<{ report: Report; files: readonly NamedContent[] }>;

export interface Way {
  /** Whether the command makes a store where there is none. */
  makesStore: boolean;
  /** What comes before the snapshot; the command ends there unless it is done. */
  before?: (publishWith: PublishWith) => Promise<ExitCode>;
  /** Undefined where the command makes no snapshot. */
  publish: ((options: PublishOptions) => Promise<PublishReport>) | undefined;
}

export function publishFrom(
  shell: Shell,
  { location, ...choices }: ReturnType<typeof readPublishing>,
  storage: Storage,
  more: More,
): PublishWith {
  const progress = progressOn(shell.stderr);
  return (step) =>
    withTemporaryFolder(async (temporaryDirectory) => {
      const { open } = sourcesAt(shell, location, temporaryDirectory, progress);
      let files: readonly NamedContent[] = [];
      const sources: OpenSources = async (knownFiles, pinned) => {
        const opened = await open(knownFiles, pinned);
        files = [...opened.files, ...opened.scoreFiles];
        return opened;
      };
      const report = await step({
        site: publishedSite,
        sources,
        storage,
        temporaryDirectory,
        now: () => new Date(),
        warn: (line) => shell.warn(line),
        progress,
        ...choices,
        ...more,
      }).catch(async (error: unknown) => {
        await warnOfClock(shell, storage, error);
        throw error;
      });
      return { report, files };
    });
}

/** Exports a snapshot, the newest one if none is named; with `changes`, also what its commit changed. */
export function exportTo(
  shell: Shell,
  storage: Storage,
  { snapshot, ...options }: { snapshot?: string | undefined; signing: Signing; changes?: true },
) {
  const progress = progressOn(shell.stderr);
  return withTemporaryFolder(async (folder) =>
    exportSnapshot(storage, snapshot, { ...options, temporaryDirectory: await realpath(folder), progress }),
  );
}

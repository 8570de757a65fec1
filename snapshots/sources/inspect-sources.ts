import { RefusalList, SourceRefusal } from "./contract/refusals.ts";
import { selectFromAll } from "./duckdb/duckdb.ts";
import { type OpenSource, readSource, refuseBrokenRows, refuseDuplicates } from "./duckdb/read-source.ts";
import {
  countSomeRows,
  extraWarning,
  groupSource,
  limitMemory,
  listSource,
  openSourceSession,
  passedWarningOf,
  type SourcesOptions,
  tablesOf,
} from "./open-sources.ts";

/** What sound sources hold. */
export interface Inspection {
  markets: number;
  protocols: number;
  /** Rows of protocol_scores. */
  scores: number;
  /** Sentences for the operator, for example about ignored columns. */
  warnings: string[];
}

/**
 * Looks for everything that a publish would refuse, except by the guards, which compare with the current snapshot.
 * Throws one SourceRefusal for all of it, where a publish stops at the first kind of fault. `warn` is called with each
 * warning before rows are read, which may take more memory than there is.
 */
export async function inspectSources(
  directory: string,
  options: SourcesOptions & { warn?: (warning: string) => void },
): Promise<Inspection> {
  const { memoryMegabytes: megabytes = 600, threads } = options;
  const refusals = new RefusalList();
  const listed = await inTurn(tablesOf(options), (table) =>
    refusals.gather(() => listSource(directory, table, options)),
  );
  const { instance, close } = await openSourceSession(listed, options);
  try {
    const opened = await inTurn(listed, (source) =>
      refusals.gather(() => groupSource(instance, source, source.files)),
    );
    const files = opened.flatMap((source) => source.files);
    const memoryWarnings = files.length > 0 ? await limitMemory(instance, files, { megabytes, threads }) : [];
    const warnings = [
      ...passedWarningOf(listed, options),
      ...opened.flatMap((source) => extraWarning(source, source.groups)),
      ...memoryWarnings,
    ];
    for (const warning of warnings) options.warn?.(warning);
    for (const source of opened) await inspectRows(source, refusals);
    refusals.throwIfAny();
    const [markets, scores] = opened as [OpenSource, OpenSource];
    return {
      markets: await countSomeRows(markets),
      protocols: await countProtocols(scores),
      scores: await countSomeRows(scores),
      warnings,
    };
  } finally {
    await close();
  }
}

/** Leaves out steps without a result. */
async function inTurn<From, To>(
  all: readonly From[],
  step: (from: From) => Promise<To | undefined>,
): Promise<To[]> {
  const results: To[] = [];
  for (const one of all) {
    const result = await step(one);
    if (result !== undefined) results.push(result);
  }
  return results;
}

async function inspectRows(source: OpenSource, refusals: RefusalList): Promise<void> {
  for (const refuse of [countSomeRows, refuseBrokenRows, refuseDuplicates]) {
    try {
      await readSource<unknown>(source, () => refuse(source));
    } catch (error) {
      if (!(error instanceof SourceRefusal)) throw error;
      refusals.addFrom(error);
      // A file that cannot be read, or has changed, would be named by each step.
      if (error.refusals.some(({ row }) => row === undefined)) return;
    }
  }
}

function countProtocols(scores: OpenSource): Promise<number> {
  return readSource(scores, async (connection) => {
    const slugs = selectFromAll(scores.groups, "slug");
    const result = await connection.runAndReadAll(`SELECT count(DISTINCT slug)::DOUBLE FROM (${slugs})`);
    return Number(result.getRows()[0]?.[0]);
  });
}

import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { pipeline } from "node:stream/promises";
import { forgeTiers } from "../../../schemas/versions.ts";
import { openSources } from "../../../snapshots/sources/open-sources.ts";
import type { RenderedMarket, Sources } from "../../../snapshots/sources/sources.ts";

/** Scores that filters look at. */
export const scoreColumns = ["informed", "integrity", "oracle", "catalyst", "design", "counterparty"];

/** Texts that filters and facets look at. */
export const labelColumns = ["category", "tier", "outcome", "formula_version", "weight_version"];

/**
 * Gives all markets of the sources to a program's stdin, one a line: its fields with tabs between them, as PostgreSQL
 * and ClickHouse read them. They are the time of resolution, the id, the labels, whether it was disputed, the
 * composite, the scores, and the record as it is sent. Throws when the program fails, with what it says.
 */
export async function loadLines(command: readonly string[], sources: string, scratch: string): Promise<void> {
  const [program, ...args] = command;
  const child = spawn(program!, args, { stdio: ["pipe", "ignore", "pipe"] });
  const ended = Promise.all([once(child, "close"), text(child.stderr)]);
  const opened = await openSources({ path: sources }, { now: new Date(), temporaryDirectory: scratch });
  const fed = await pipeline(linesOf(opened), child.stdin).catch((error: Error) => error);
  await opened.close();
  const [[code], complaint] = await ended;
  // Of a program that reads no further, this tells more than the broken pipe.
  if (code !== 0) throw new Error(`${program} does not take the markets: ${complaint}`);
  if (fed) throw fed;
}

async function* linesOf(sources: Sources): AsyncGenerator<string> {
  for await (const rows of sources.markets()) yield rows.map(lineOf).join("");
}

function lineOf(row: RenderedMarket): string {
  const { values } = row;
  const fields = [
    new Date(row.resolvedAt).toISOString(),
    row.id,
    values.category.toLowerCase(),
    forgeTiers[values.tier - 1]!,
    values.outcome,
    values.formula_version,
    values.weight_version,
    String(Boolean(values.disputed)),
    ...[values.composite, values.informed, values.integrity, values.oracle].map(String),
    ...[values.catalyst, values.design, values.counterparty].map(String),
    String(row.line),
  ];
  return `${fields.map((field) => field.replace(/[\\\t\n\r]/g, escaped)).join("\t")}\n`;
}

function escaped(character: string): string {
  return { "\t": "\\t", "\n": "\\n", "\r": "\\r" }[character] ?? `\\${character}`;
}

import { Change } from "../../proxy/site/client/client.ts";
import { LineWriter, linesOf } from "./lines.ts";

/** Archives are sorted by this key, descending: by time, then by id. */
function sortKeyOf(text: Buffer): string {
  // No string in a record can hold these characters unescaped, and free-form JSON comes after them.
  const at = text.indexOf(resolvedAt) + resolvedAt.length;
  return text.toString("latin1", at, at + 24) + text.toString("latin1", 7, 43);
}

const resolvedAt = Buffer.from(',"resolvedAt":"');

/**
 * Writes a new archive: the old one without the markets that `changes` names, and with the markets that it puts, each
 * in its place. All three files hold lines. Memory grows with the number of changes only. Returns the number of lines
 * written.
 */
export async function mergeChanges(archive: string, changes: string, into: string): Promise<number> {
  const named = new Set<string>();
  for await (const line of linesOf(changes)) {
    const { id } = new Change(line.toString());
    // A copy, because a slice would keep the whole line in memory.
    named.add(Buffer.from(id).toString("latin1"));
  }
  const puts = putsIn(changes);
  const writer = await LineWriter.open(into, { fresh: true });
  try {
    let put = (await puts.next()).value;
    let key = put && sortKeyOf(put);
    for await (const line of linesOf(archive)) {
      if (named.has(line.toString("latin1", 7, 43))) continue;
      while (put && key && key > sortKeyOf(line)) {
        await writer.write(put);
        put = (await puts.next()).value;
        key = put && sortKeyOf(put);
      }
      const full = writer.write(line);
      if (full) await full;
    }
    for (; put; put = (await puts.next()).value) await writer.write(put);
  } finally {
    await writer.close();
    await puts.return(undefined);
  }
  return writer.lines;
}

async function* putsIn(changes: string): AsyncGenerator<Buffer, undefined, void> {
  for await (const line of linesOf(changes)) {
    const change = new Change(line.toString());
    if (change.op === "put") yield Buffer.from(change.text);
  }
  return undefined;
}

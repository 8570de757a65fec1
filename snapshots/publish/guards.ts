import { createHash } from "node:crypto";
import type { HistoricalMarket } from "../../schemas/records.ts";
import type { ChangeCounts } from "../../schemas/snapshot.ts";
import type { RenderedMarket } from "../sources/sources.ts";
import type { PreviousSnapshot } from "./previous-snapshot.ts";

/** At most this share of the current snapshot's markets or protocols may disappear or change in one run. */
const sharePercent = 5;
/** An archive that grows by this factor was probably loaded twice. */
const growth = 2;

/** Numbers of markets that a publish run removes, changes or adds. */
export interface Difference {
  removed: number;
  changed: number;
  added: number;
}

/** Exact numbers that the operator has reviewed and allows. `removed` counts markets and protocols together. */
export type Allowance = Partial<Difference>;

/** The sources look broken: more would disappear, change or be added than an ordinary run explains. */
export class GuardRefusal extends Error {
  override readonly name = "GuardRefusal";
  /** The allowance with which the same sources pass. */
  readonly needed: Allowance;

  constructor(message: string, needed: Allowance) {
    super(message);
    this.needed = needed;
  }
}

/** Three 64-bit hashes per row: of the id, of the id with the formula version, and of the whole record. */
class RowHashes {
  #columns = [new BigUint64Array(1024), new BigUint64Array(1024), new BigUint64Array(1024)] as const;
  #size = 0;

  /** `record` is the JSON text of a market. */
  add(record: Uint8Array): void {
    if (this.#size === this.#columns[0].length) {
      const grow = (column: BigUint64Array) => {
        const larger = new BigUint64Array(column.length * 2);
        larger.set(column);
        return larger;
      };
      this.#columns = [grow(this.#columns[0]), grow(this.#columns[1]), grow(this.#columns[2])];
    }
    const line = Buffer.from(record.buffer, record.byteOffset, record.byteLength);
    const { id, formulaVersion }: Pick<HistoricalMarket, "id" | "formulaVersion"> = JSON.parse(
      line.toString("utf8"),
    );
    [id, `${id} ${formulaVersion}`, record].forEach((fact, column) => {
      this.#columns[column]![this.#size] = createHash("sha256").update(fact).digest().readBigUInt64LE();
    });
    this.#size += 1;
  }

  get sorted(): { ids: BigUint64Array; formulas: BigUint64Array; records: BigUint64Array } {
    const [ids, formulas, records] = this.#columns;
    const cut = (column: BigUint64Array) => column.subarray(0, this.#size).sort();
    return { ids: cut(ids), formulas: cut(formulas), records: cut(records) };
  }
}

/** Counts the numbers that occur in both of two ascending lists. */
function commonCount(a: BigUint64Array, b: BigUint64Array): number {
  let [common, left, right] = [0, 0, 0];
  while (left < a.length && right < b.length) {
    if (a[left]! < b[right]!) left += 1;
    else if (a[left]! > b[right]!) right += 1;
    else {
      common += 1;
      left += 1;
      right += 1;
    }
  }
  return common;
}

/** Compares the rows of a publish run with the current snapshot. The cost grows with what differs, not with the archive. */
export class DifferenceCount {
  readonly #previous: PreviousSnapshot;
  readonly #kept: Uint8Array;
  readonly #fresh = new RowHashes();

  /** `kept` is 1 at the ordinals of unchanged rows. `markets()` reads it, so it may still be filled until then. */
  constructor(previous: PreviousSnapshot, kept: Uint8Array) {
    this.#previous = previous;
    this.#kept = kept;
  }

  /** Adds markets that were rendered because they are new or changed. */
  add(rows: readonly RenderedMarket[]): void {
    for (const { json } of rows) this.#fresh.add(json);
  }

  /**
   * Counts the differences. Reads only those pages of the current snapshot that hold a removed or changed row.
   * `changed` counts markets that changed under the same formula version, `all.changed` every changed market.
   */
  async markets(): Promise<Difference & { all: ChangeCounts }> {
    const old = new RowHashes();
    for (const [index, { page, start, usable }] of this.#previous.pages.entries()) {
      const end = start + page.markets;
      if (!usable || !this.#kept.subarray(start, end).includes(0)) continue;
      const lines = await this.#previous.pageLines(index);
      lines.forEach((line, position) => {
        if (this.#kept[end - 1 - position] === 0) old.add(line);
      });
    }
    const [before, after] = [old.sorted, this.#fresh.sorted];
    const common = commonCount(before.ids, after.ids);
    const [removed, added] = [before.ids.length - common, after.ids.length - common];
    return {
      removed,
      added,
      all: { added, removed, changed: common - commonCount(before.records, after.records) },
      changed: commonCount(before.formulas, after.formulas) - commonCount(before.records, after.records),
    };
  }
}

/** Throws GuardRefusal, which names the numbers and the options that allow them. */
export function checkGuards(
  previous: PreviousSnapshot,
  markets: Difference,
  after: { markets: number; slugs: ReadonlySet<string> },
  allowed: Allowance,
): void {
  const { counts, scores } = previous.manifest;
  const gone = Object.keys(scores.records).filter((slug) => !after.slugs.has(slug)).length;
  const tooMany = (count: number, of: number) => count * 100 > of * sharePercent;
  const removed = markets.removed + gone;
  const faults: string[] = [];
  const needed: Allowance = {};
  const judge = (kind: keyof Difference, count: number, broken: boolean, what: string) => {
    if (!broken) return;
    needed[kind] = count;
    if (allowed[kind] === count) return;
    faults.push(`${what}; if that is meant, publish with --allow-${kind} ${count}`);
  };
  judge(
    "removed",
    removed,
    tooMany(markets.removed, counts.markets) || tooMany(gone, counts.protocols),
    `${markets.removed} of ${counts.markets} markets and ${gone} of ${counts.protocols} protocols are gone`,
  );
  judge(
    "changed",
    markets.changed,
    tooMany(markets.changed, counts.markets),
    `${markets.changed} of ${counts.markets} markets changed under an unchanged formula_version`,
  );
  judge(
    "added",
    markets.added,
    after.markets >= growth * counts.markets,
    `the archive grows from ${counts.markets} to ${after.markets} markets, ${markets.added} of them new`,
  );
  if (faults.length > 0) {
    throw new GuardRefusal(`The sources look broken: ${faults.join(". ")}.`, needed);
  }
}

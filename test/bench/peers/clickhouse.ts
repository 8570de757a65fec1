import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Asked } from "../load/client.ts";
import { startServer } from "../run/processes.ts";
import type { Bench } from "../run/run.ts";
import { labelColumns, loadLines, scoreColumns } from "./market-lines.ts";
import { clause, filterOf, type Where } from "./sql.ts";

const script = join(import.meta.dirname, "clickhouse.py");
const pageSize = 100;
const order = "resolved_at DESC, id DESC";

const labels = labelColumns.map((name) => `${name} LowCardinality(String)`).join(", ");
const scores = scoreColumns.map((name) => `${name} UInt8`).join(", ");
const columns = (time: string, id: string) =>
  `resolved_at ${time}, id ${id}, ${labels}, disputed Bool, composite UInt16, ${scores}, record String`;

/**
 * The rows of a page lie all over the table, and each costs the granule that it lies in, so granules are small. An id
 * is kept as bytes: ClickHouse's own UUIDs have another order than their text.
 */
const statements = [
  `CREATE TABLE markets (${columns("DateTime64(3, 'UTC')", "FixedString(16)")})
   ENGINE = MergeTree ORDER BY (${order})
   SETTINGS allow_experimental_reverse_key = 1, index_granularity = 256`,
  `INSERT INTO markets SELECT * REPLACE (UUIDStringToNum(id) AS id)
   FROM file('stdin', 'TSV', '${columns("DateTime64(3)", "String")}')
   SETTINGS date_time_input_format = 'best_effort'`,
  "OPTIMIZE TABLE markets FINAL",
];

/**
 * Starts ClickHouse in a process of Python over the sample's markets, in a MergeTree in the archive's order. Returns
 * what asks it for the first page of a filter and its exact total. Both go through pipes, so it pays for no HTTP and no
 * gzip.
 */
export async function startChdb({ data, ends }: Bench, python: string) {
  const sources = await data.sources();
  const folder = await data.once("chdb", (place) =>
    loadLines([python, script, place, ...statements], sources, data.scratch),
  );
  const child = startServer(ends, [python, script, folder], { stdio: ["pipe", "pipe", "inherit"] });
  const lines = createInterface({ input: child.stdout! })[Symbol.asyncIterator]();

  /** The lines of the next answer, which an empty one ends. */
  async function nextAnswer(): Promise<string[]> {
    const answer: string[] = [];
    for (;;) {
      const { value, done } = await lines.next();
      if (done) throw new Error("chdb has ended");
      if (value === "") return answer;
      answer.push(value);
    }
  }

  return async (filter: string): Promise<Asked> => {
    const where = clickHouse(filterOf(Object.fromEntries(new URLSearchParams(filter))));
    const count = `SELECT count() FROM markets ${where}`;
    const page = `SELECT record FROM markets ${where} ORDER BY ${order} LIMIT ${pageSize + 1}`;
    const start = performance.now();
    child.stdin!.write(`${JSON.stringify([count, page])}\n`);
    const [total, ...records] = await nextAnswer();
    const milliseconds = performance.now() - start;
    const markets = records.slice(0, pageSize).map((record) => JSON.parse(record));
    const nextCursor = records.length > pageSize ? "" : null;
    return { milliseconds, answer: { count: markets.length, total: Number(total), nextCursor, markets } };
  };
}

/** A condition with its values in it. Casts are as in PostgreSQL; `lower` knows ASCII alone. */
function clickHouse(where: Where): string {
  const literal = (value: unknown) => `'${String(value).replace(/[\\']/g, "\\$&")}'`;
  return clause(where)
    .replace("= lower(", "= lowerUTF8(")
    .replace(/\$(\d+)::(\w+)/g, (_, number: string, type: string) => {
      const value = literal(where.values[Number(number) - 1]);
      return type === "timestamptz" ? `parseDateTime64BestEffort(${value}, 3, 'UTC')` : `${value}::${type}`;
    });
}

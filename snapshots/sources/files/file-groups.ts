import {
  type DuckDBConnection,
  DuckDBListType,
  DuckDBMapType,
  DuckDBStructType,
  type DuckDBType,
} from "@duckdb/node-api";
import { type FileField, type FileShape, member } from "../contract/file-column.ts";
import { matchColumns } from "../contract/match-columns.ts";
import type { RowRule, SourceTable } from "../contract/source-tables.ts";
import {
  type AlikeFiles,
  columnsOf,
  fileList,
  foldCase,
  membersOf,
  type NamedType,
  readingFault,
  readParquet,
} from "../duckdb/duckdb.ts";
import { identifier, quoted, valuesAt } from "../duckdb/sql-literals.ts";
import { RefusalList, SourceRefusal } from "../sources.ts";
import type { SourceFile } from "./source-files.ts";

/**
 * Files of a source with identical columns. Given a list of files, DuckDB takes the columns of the first one and
 * silently drops what the others have besides, so only such files are read together.
 */
export interface FileGroup extends AlikeFiles {
  files: SourceFile[];
  fields: readonly FileField[];
  /** The table's row rules, and rules for the size of these files' lists. */
  rowRules: readonly RowRule[];
  /** In lower case, including columns that the contract does not name. */
  columns: ReadonlySet<string>;
  /** Columns and struct members that the contract does not name. */
  extra: readonly string[];
  /** The names and types of all columns, down to the members of structs, as JSON. */
  signature: string;
}

/**
 * Matches every file's columns with the contract. Throws SourceRefusal naming the file, column and type of each fault.
 */
export async function groupFiles(
  connection: DuckDBConnection,
  table: SourceTable,
  files: readonly SourceFile[],
): Promise<FileGroup[]> {
  const refusals = new RefusalList();
  const bySignature = new Map<string, FileGroup>();
  for (const file of files) {
    const matched = await refusals.gather(() => matchFile(connection, table, file));
    if (!matched) continue;
    const { columns, fields, rowRules, extra } = matched;
    // JSON of a type distinguishes JSON columns from text. The type's name does not.
    const own = ownOf(columns);
    const signature = JSON.stringify(own.map(([name, type]) => [name, type.toJson()]));
    const group = bySignature.get(signature);
    if (group) group.files.push(file);
    else {
      bySignature.set(signature, {
        files: [file],
        fields,
        rowRules,
        renamed: renamedColumns(columns, fields),
        columns: new Set(own.map(([name]) => foldCase(name))),
        extra: [...new Set(extra)],
        signature,
      });
    }
  }
  refusals.throwIfAny();
  return [...bySignature.values()];
}

async function matchFile(connection: DuckDBConnection, table: SourceTable, file: SourceFile) {
  const rows = readParquet({ files: [file] });
  const describe = async (always: boolean) => {
    try {
      const result = await connection.run(`SELECT * FROM ${rows} LIMIT 0`);
      return await ownColumns(connection, file, columnsOf(result), always);
    } catch (error) {
      throw new SourceRefusal([{ file: file.name, rule: readingFault(error) }]);
    }
  };
  let columns = await describe(false);
  let match = matchColumns(table, ownOf(columns));
  // Only faults make it worth reading the schema that the file itself has.
  if (match.faults.length > 0) {
    columns = await describe(true);
    match = await matchRows(connection, table, ownOf(columns), rows);
  }
  const { faults, ...matched } = match;
  if (faults.length > 0) throw new SourceRefusal(faults.map((fault) => ({ file: file.name, ...fault })));
  return { ...matched, columns };
}

/** As matchColumns; lists that have no item in any of the `rows`, which are SQL, may have items of any type. */
export async function matchRows(
  connection: DuckDBConnection,
  table: SourceTable,
  columns: readonly NamedType[],
  rows: string,
) {
  const match = matchColumns(table, columns);
  // The list of a whole row's parts is never empty, as other rules ask for.
  const lists = match.faults.flatMap(({ column }) => /^(.*?\[\].*?)\[\]/.exec(column)?.[1] ?? []);
  const empty = new Set<string>();
  for (const path of new Set(lists)) {
    const result = await connection
      .runAndReadAll(`SELECT 1 FROM ${rows} WHERE len(${valuesAt(`${path}[]`)}) > 0 LIMIT 1`)
      .catch(() => undefined);
    if (result?.currentRowCount === 0) empty.add(path);
  }
  return empty.size > 0 ? matchColumns(table, columns, empty) : match;
}

const ownOf = (columns: readonly Column[]) => columns.map(({ own }) => own);

// DuckDB does not distinguish names that differ only in case. It gives the later of two columns or members a number:
// `ID` and `id` become `ID` and `id_1`. The schema of the file has their own names.

/** A column by the name that DuckDB gives it, and by its own. */
interface Column {
  given: NamedType;
  own: NamedType;
}

/** The columns of a file as DuckDB gives them, with their own names where it may have changed one, or `always`. */
async function ownColumns(
  connection: DuckDBConnection,
  file: SourceFile,
  given: readonly NamedType[],
  always: boolean,
): Promise<Column[]> {
  const same = given.map((column) => ({ given: column, own: column }));
  if (!always && !hasNumbered(given)) return same;
  const result = await connection.runAndReadAll(
    `SELECT name, num_children::INTEGER FROM parquet_schema(${fileList([file])}) ORDER BY column_id`,
  );
  const rows = result.getRows().values();
  const next = (): Node => {
    const [name, children] = rows.next().value ?? [];
    return {
      name: String(name),
      children: Array.from({ length: Number(children ?? 0) }, next),
    };
  };
  const { children } = next();
  if (children.length !== given.length) return same;
  return given.map(([name, type], n) => ({
    given: [name, type],
    own: [children[n]!.name, typeIn(children[n]!, type) ?? type],
  }));
}

interface Node {
  name: string;
  children: Node[];
}

/** Whether a name, at any depth, may end with a number that DuckDB put behind another's. */
function hasNumbered(all: readonly NamedType[]): boolean {
  const names = new Set(all.map(([name]) => foldCase(name)));
  return all.some(([name, type]) => {
    const stem = /^(.*)_\d+$/s.exec(name)?.[1];
    return (stem !== undefined && names.has(foldCase(stem))) || partsOf(type).some(hasNumbered);
  });
}

function partsOf(type: DuckDBType): NamedType[][] {
  if (type instanceof DuckDBStructType) return [membersOf(type)];
  if (type instanceof DuckDBListType) return partsOf(type.valueType);
  return type instanceof DuckDBMapType ? partsOf(type.valueType) : [];
}

/** Gives a type the names of a schema; undefined where the two are not alike. */
function typeIn(node: Node, type: DuckDBType): DuckDBType | undefined {
  const { children } = node;
  if (type instanceof DuckDBStructType) {
    if (children.length !== type.entryNames.length) return undefined;
    const types = children.map((child, n) => typeIn(child, type.entryTypes[n]!));
    const resolved = types.filter((one) => one !== undefined);
    return resolved.length === types.length
      ? new DuckDBStructType(
          children.map(({ name }) => name),
          resolved,
        )
      : undefined;
  }
  if (type instanceof DuckDBListType) {
    // A group may stand between a list and its items, and older writers repeat the item itself.
    for (const item of [children[0]?.children[0], children[0], node]) {
      const itemType = item && typeIn(item, type.valueType);
      if (itemType) return new DuckDBListType(itemType);
    }
    return undefined;
  }
  if (type instanceof DuckDBMapType) {
    const value = children[0]?.children[1];
    const valueType = value && typeIn(value, type.valueType);
    return valueType && new DuckDBMapType(type.keyType, valueType);
  }
  return children.length > 0 ? undefined : type;
}

/** SQL of the contract's columns under their own names and types; undefined where DuckDB changed none. */
function renamedColumns(columns: readonly Column[], fields: readonly FileField[]): string[] | undefined {
  if (columns.every(({ given, own }) => given[0] === own[0] && `${given[1]}` === `${own[1]}`))
    return undefined;
  const byName = new Map(columns.map((column) => [column.own[0], column]));
  const values = fields.map(({ name, shape }) => {
    const { given, own } = byName.get(name)!;
    return `${renamed(shape, own[1], given[1], identifier(given[0]))} AS ${identifier(name)}`;
  });
  const foreign = new Set(columns.map(({ given }) => foldCase(given[0])));
  return [...values, ...["file_row_number", "file_index"].filter((name) => !foreign.has(name))];
}

/** SQL for a value with the members that the contract names, under their own names. */
function renamed(shape: FileShape, own: DuckDBType, given: DuckDBType, value: string, depth = 0): string {
  if (shape.kind === "list" && own instanceof DuckDBListType && given instanceof DuckDBListType) {
    const item = `own${depth}`;
    const items = renamed(shape.of, own.valueType, given.valueType, item, depth + 1);
    return items === item ? value : `list_transform(${value}, lambda ${item}: ${items})`;
  }
  // A part whose type the file chooses has no renamed member.
  if (shape.kind !== "struct" || shape.nullable) return value;
  const [names, there] = [(own as DuckDBStructType).entryNames, membersOf(given as DuckDBStructType)];
  const members = shape.fields.map(({ name, shape }) => {
    const at = names.indexOf(name);
    const part = member(value, there[at]![0]);
    return `${quoted(name)}: ${renamed(shape, (own as DuckDBStructType).entryTypes[at]!, there[at]![1], part, depth)}`;
  });
  return `CASE WHEN ${value} IS NOT NULL THEN {${members.join(", ")}} END`;
}

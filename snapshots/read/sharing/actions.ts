import { sharedTable } from "../../../schemas/sharing.ts";
import type { ExportFile, ParquetFile } from "../../../schemas/store/snapshot.ts";
import { deltaSchema } from "../../export/delta-schema.ts";
import type { TableVersion } from "./versions.ts";

/** The two forms of answers about a table: lines of the protocol's own, and lines that hold actions of Delta logs. */
export type ResponseFormat = "parquet" | "delta";

/** Where a file is read without a header, and until when (epoch milliseconds). */
export interface FileAddress {
  url: string;
  expirationTimestamp: number;
}

/** Every table must have an id. There is only this one. */
const tableId = "6d61726b-6574-4073-8072-732e61726368";

/** Lines that say what the table is. `version` is sent only if it was `asked` for. */
export function tableLines(
  format: ResponseFormat,
  { version, files }: Pick<TableVersion, "version" | "files">,
  asked: boolean,
): object[] {
  const size = files.reduce((sum, { bytes }) => sum + bytes, 0);
  const about = { ...(asked && { version }), size, numFiles: files.length };
  const delta = format === "delta";
  const metadata = {
    id: tableId,
    name: sharedTable.name,
    format: { provider: "parquet", ...(delta && { options: {} }) },
    schemaString: deltaSchema,
    partitionColumns: [],
    configuration: { [delta ? "delta.enableChangeDataFeed" : "enableChangeDataFeed"]: "true" },
  };
  if (!delta) return [{ protocol: { minReaderVersion: 1 } }, { metaData: { ...metadata, ...about } }];
  return [
    { protocol: { deltaProtocol: { minReaderVersion: 1, minWriterVersion: 4 } } },
    { metaData: { ...about, deltaMetadata: metadata } },
  ];
}

/** In the JSON of Delta tables. */
const statsOf = ({ rows, stats }: ExportFile) => JSON.stringify({ numRecords: rows, ...stats });

/** A file of what a version changed: "cdf" where its rows say what happened, "add" where all are new. */
export function changeLine(
  format: ResponseFormat,
  { version, publishedAt }: Pick<TableVersion, "version" | "publishedAt">,
  kind: "add" | "cdf",
  file: ParquetFile,
  { url, expirationTimestamp }: FileAddress,
): object {
  const [id, size, timestamp] = [file.hash, file.bytes, Date.parse(publishedAt)];
  const common = { id, size, version, timestamp, expirationTimestamp };
  if (format === "parquet") return { [kind]: { url, partitionValues: {}, ...common } };
  const action = { path: url, partitionValues: {}, size };
  const deltaSingleAction =
    kind === "cdf"
      ? { cdc: { ...action, dataChange: false } }
      : { add: { ...action, modificationTime: timestamp, dataChange: true } };
  return { file: { ...common, deltaSingleAction } };
}

export function fileLine(
  format: ResponseFormat,
  { version, publishedAt }: Pick<TableVersion, "version" | "publishedAt">,
  file: ExportFile,
  { url, expirationTimestamp }: FileAddress,
): object {
  const [id, size, stats, timestamp] = [file.hash, file.bytes, statsOf(file), Date.parse(publishedAt)];
  const common = { id, size, version, timestamp, expirationTimestamp };
  if (format === "parquet") return { file: { url, partitionValues: {}, stats, ...common } };
  const add = { path: url, partitionValues: {}, size, modificationTime: timestamp, dataChange: true, stats };
  return { file: { ...common, deltaSingleAction: { add } } };
}

import { Fault } from "../../schemas/errors.ts";
import { sharedTable, sharingLines, type TableQuery } from "../../schemas/rooms/sharing.ts";
import { invalidParameter } from "../../snapshots/read/errors.ts";
import { optionalInteger, type Parameters } from "../../snapshots/read/query/parameters.ts";
import { prunedFiles } from "../../snapshots/read/sharing/hints.ts";
import {
  changeLine,
  changesOf,
  fileLine,
  findVersion,
  type ResponseFormat,
  type TableVersion,
  tableLines,
  versionSince,
} from "../../snapshots/read/sharing/sharing.ts";
import type { Identity } from "../access/identity.ts";
import type { Exchange, Request } from "../exchange.ts";
import { type Answer, type Reply, uncachedJson, uncachedText } from "../reply/reply.ts";
import { fileReply } from "../reply/stream.ts";
import type { AppServices } from "../services.ts";
import { fileAddresses } from "./file-address.ts";

const { share, schema, name } = sharedTable;
const [shares, schemas, tables] = [[{ name: share }], [{ name: schema, share }], [{ name, schema, share }]];
const maxInt32 = 2 ** 31 - 1;

/** Answers of Delta Sharing (INTERFACE 4.14; PROTOCOL.md of github.com/delta-io/delta-sharing). */
export function sharingAnswers(services: AppServices) {
  const { catalog, exports, keys, apiUrl, now } = services;
  const current = () => catalog.current()?.commit.snapshotId;
  const listing =
    (items: readonly object[]): Answer =>
    ({ params, parameters }) => {
      requireNames(params);
      return uncachedJson(pageOf(items, parameters!), current());
    };

  function answer(request: Request, version: TableVersion, lines: readonly object[] = []): Reply {
    const text = Buffer.from(lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
    const asked = request.headers["delta-sharing-capabilities"] !== undefined;
    return {
      ...uncachedText(text, version.snapshotId, sharingLines),
      headers: {
        "Delta-Table-Version": version.version,
        ...(asked && { "delta-sharing-capabilities": `responseformat=${formatOf(request)}` }),
      },
    };
  }

  function addressesFor({ headers }: Request, caller: Identity) {
    const base = apiUrl?.href.replace(/\/$/, "") ?? `http://${headers.host}`;
    return fileAddresses(keys, caller, { base, now: now() });
  }

  const file: Answer = async ({ params }, request) => {
    catalog.requireCurrent();
    const { hash, changes } = params as { hash: string; changes?: string };
    // Several snapshots may have this file.
    return fileReply(request, await exports.openFile(hash, changes));
  };

  return {
    listShares: listing(shares),
    listSchemas: listing(schemas),
    listTables: listing(tables),
    listAllTables: listing(tables),

    getShare({ params }) {
      requireNames(params);
      return uncachedJson({ share: shares[0] }, current());
    },

    async tableVersion({ params, parameters }, request) {
      requireNames(params);
      const since = parameters!.get("startingTimestamp");
      return answer(
        request,
        await (since === undefined ? findVersion(services, {}) : versionSince(services, since)),
      );
    },

    async tableMetadata({ params, parameters }, request) {
      requireNames(params);
      const version = optionalInteger(parameters!, "version", 0, Number.MAX_SAFE_INTEGER);
      const found = await findVersion(services, { version, timestamp: parameters!.get("timestamp") });
      return answer(request, found, tableLines(formatOf(request), found, parameters!.size > 0));
    },

    async queryTable({ params, body, caller }, request) {
      requireNames(params);
      const query = body as TableQuery;
      if (query.startingVersion !== undefined)
        throw invalidParameter(
          "startingVersion",
          "A query gives the files of one version; GET …/changes gives what changed from version to version.",
        );
      const found = await findVersion(services, query);
      const format = formatOf(request);
      const address = addressesFor(request, caller!);
      const asked = query.version !== undefined || query.timestamp !== undefined;
      const files = prunedFiles(found.files, query).map((file) =>
        fileLine(format, found, file, address(file.hash)),
      );
      return answer(request, found, [...tableLines(format, found, asked), ...files]);
    },

    async tableChanges({ params, parameters, caller }, request) {
      requireNames(params);
      const { newest, first, versions } = await changesOf(services, parameters!);
      const [format, address] = [formatOf(request), addressesFor(request, caller!)];
      const lines = versions.flatMap((version) =>
        version.files.map((each) => {
          const changes = version.kind === "cdf" ? version.changes : undefined;
          return changeLine(format, version, version.kind, each, address(each.hash, changes));
        }),
      );
      // The schema is the same in all versions.
      const table = tableLines(format, { ...newest, version: first }, true);
      return answer(request, { ...newest, version: first }, [...table, ...lines]);
    },

    sharedFile: file,
    sharedChanges: file,
  } satisfies Record<string, Answer>;
}

/** Throws SHARE_NOT_FOUND unless the names in a path are those of the share, in any letter case. */
function requireNames(params: Exchange["params"]): void {
  const known: Record<string, string> = { share, schema, table: name };
  for (const [kind, given] of Object.entries(params))
    if (given.toLowerCase() !== known[kind])
      throw new Fault(
        "SHARE_NOT_FOUND",
        `There is no such ${kind}; the table is ${share}.${schema}.${name}.`,
      );
}

/** A page of a list. The token of a page is the number of items before it. */
function pageOf(items: readonly object[], parameters: Parameters) {
  const from = optionalInteger(parameters, "pageToken", 0, items.length) ?? 0;
  const to = from + (optionalInteger(parameters, "maxResults", 0, maxInt32) ?? items.length);
  return { items: items.slice(from, to), ...(to < items.length && { nextPageToken: String(to) }) };
}

/** The form of lines that a request wants: the plain one unless it accepts only the other. */
function formatOf({ headers }: Request): ResponseFormat {
  const capabilities = String(headers["delta-sharing-capabilities"] ?? "").toLowerCase();
  const [, formats = ""] = /(?:^|;)\s*responseformat=([^;]*)/.exec(capabilities) ?? [];
  const wanted = formats.split(",").map((format) => format.trim());
  return wanted.includes("delta") && !wanted.includes("parquet") ? "delta" : "parquet";
}

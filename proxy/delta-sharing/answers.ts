import { createHmac, timingSafeEqual } from "node:crypto";
import { Fault } from "../../schemas/errors.ts";
import { sharedTable, sharingLines, sharingRoot, type TableQuery } from "../../schemas/rooms/sharing.ts";
import type { KeyRecord } from "../../schemas/store/stored-objects.ts";
import { invalidParameter, optionalInteger, type Parameters } from "../../snapshots/read/parameters.ts";
import { prunedFiles } from "../../snapshots/read/sharing/hints.ts";
import {
  changesOf,
  type FileAddress,
  fileLine,
  findVersion,
  type ResponseFormat,
  type TableVersion,
  tableLines,
  versionSince,
} from "../../snapshots/read/sharing/sharing.ts";
import { holderOf, type Identity } from "../access/identity.ts";
import type { Check, Exchange, Request } from "../exchange.ts";
import { type Answer, type Reply, uncachedJson, uncachedText } from "../reply/reply.ts";
import { fileReply } from "../reply/stream.ts";
import type { AppServices } from "../services.ts";

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
    const negotiates = request.headers["delta-sharing-capabilities"] !== undefined;
    return {
      ...uncachedText(text, version.snapshotId, sharingLines),
      headers: {
        "Delta-Table-Version": version.version,
        ...(negotiates && { "delta-sharing-capabilities": `responseformat=${formatOf(request)}` }),
      },
    };
  }

  /** Makes addresses of files that need no header and are counted to the caller. */
  function addressesFor({ headers }: Request, { keyId = "" }: Identity) {
    const base = apiUrl?.href.replace(/\/$/, "") ?? (headers.host && `http://${headers.host}`);
    // HTTP/1.0 requires none.
    if (!base) throw new Fault("BAD_REQUEST", "Addresses of files begin with the request's Host; send one.");
    const verdict = keys.judgeId(keyId);
    // The key may have ended since it was checked.
    if (verdict.state !== "active") throw refused("The key has ended.");
    const expires = Math.floor(now() / 1000) + addressSeconds;
    return (hash: string, changes?: string): FileAddress => {
      const path = `${sharingRoot}/files/${changes === undefined ? "" : `${changes}/`}${hash}.parquet`;
      const query = addressQuery(verdict.record, path, expires);
      return { url: `${base}${path}?${query}`, expirationTimestamp: expires * 1000 };
    };
  }

  const file: Answer = async ({ params }, request) => {
    catalog.requireCurrent();
    const { hash, changes } = params as { hash: string; changes?: string };
    // Without a snapshot's id, since several snapshots may have this file.
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
      const table = await findVersion(services, { version, timestamp: parameters!.get("timestamp") });
      return answer(request, table, tableLines(formatOf(request), table, parameters!.size > 0));
    },

    async queryTable({ params, body, caller }, request) {
      requireNames(params);
      const query = body as TableQuery;
      if (query.startingVersion !== undefined)
        throw invalidParameter(
          "startingVersion",
          "A query gives the files of one version; GET …/changes gives what changed from version to version.",
        );
      const table = await findVersion(services, query);
      const format = formatOf(request);
      const address = addressesFor(request, caller!);
      const versioned = query.version !== undefined || query.timestamp !== undefined;
      const files = prunedFiles(table.files, query).map((file) =>
        fileLine(format, table, "file", file, address(file.hash)),
      );
      return answer(request, table, [...tableLines(format, table, versioned), ...files]);
    },

    async tableChanges({ params, parameters, caller }, request) {
      requireNames(params);
      const { newest, first, versions } = await changesOf(services, parameters!);
      const [format, address] = [formatOf(request), addressesFor(request, caller!)];
      const lines = versions.flatMap((version) =>
        version.files.map((each) => {
          const changes = version.kind === "cdf" ? version.changes : undefined;
          return fileLine(format, version, version.kind, each, address(each.hash, changes));
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

/** The names in a path must be those of the table, in any letter case. */
function requireNames(params: Exchange["params"]): void {
  const names: Record<string, string> = { share, schema, table: name };
  for (const [kind, value] of Object.entries(params))
    if (value.toLowerCase() !== names[kind])
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

/** `parquet`, unless the request accepts `delta` alone. */
function formatOf({ headers }: Request): ResponseFormat {
  const capabilities = String(headers["delta-sharing-capabilities"] ?? "").toLowerCase();
  const [, formats = ""] = /(?:^|;)\s*responseformat=([^;]*)/.exec(capabilities) ?? [];
  const wanted = formats.split(",").map((format) => format.trim());
  return wanted.includes("delta") && !wanted.includes("parquet") ? "delta" : "parquet";
}

/**
 * Identifies the sender of a request by the key that signed its address. Headers do not count. The address must be
 * valid when the request arrives, and the key until it ends.
 */
export function requireAddress({ keys, now }: Pick<AppServices, "keys" | "now">): Check {
  return (_request, exchange) => {
    const { path } = exchange;
    const parameters = new URLSearchParams(exchange.search);
    const key = parameters.get("key") ?? "";
    const expires = Number(parameters.get("expires"));
    const identify = () => holderOf(keys, keys.judgeId(key));
    const caller = identify();
    const verdict = keys.judgeId(key);
    // Another spelling of the query is another text, and was not signed.
    const sound =
      verdict.state === "active" && isAddressQuery(exchange.search, verdict.record, path, expires);
    if (!sound) throw refused("This address was not given out by the service as it is.");
    if (expires * 1000 <= now()) throw refused("This address has expired.");
    exchange.identify = identify;
    exchange.caller = caller;
  };
}

const refused = (reason: string) =>
  new Fault("INVALID_FILE_ADDRESS", `${reason} Query the table again for its files.`);

/** How long a signed address is good. */
const addressSeconds = 15 * 60;

/**
 * Makes an address readable without a header until `expires` (epoch seconds). The query follows from the key's record,
 * so every process can check it, and it ends with the key.
 */
function addressQuery({ id, secretHash }: KeyRecord, path: string, expires: number): string {
  const text = `address ${path} ${expires}`;
  const signature = createHmac("sha256", Buffer.from(secretHash, "hex")).update(text).digest("base64url");
  // delta-kernel-rs recognises a signed address by one of a few names; `sp` is the permission.
  return `key=${id}&expires=${expires}&sp=r&sig=${signature}`;
}

/** Compares byte for byte, in constant time. */
function isAddressQuery(query: string, record: KeyRecord, path: string, expires: number): boolean {
  const [actual, expected] = [query, addressQuery(record, path, expires)].map((text) => Buffer.from(text));
  return actual!.length === expected!.length && timingSafeEqual(actual!, expected!);
}

import { Fault } from "../../schemas/errors.ts";
import type { ByteRange, StoredFile } from "../../snapshots/read/stream.ts";
import type { Request } from "../exchange.ts";
import { heldTag } from "./coding.ts";
import type { Reply } from "./reply.ts";

/** A reply with a file, or with the range of it that a request asks for. */
export function fileReply(request: Request, file: StoredFile, snapshotId?: string): Reply {
  const { bytes, hash, contentType, ranges } = file;
  const tag = `"${hash}"`;
  const etag = () => tag;
  // A caller who has the file gets 304, whatever range it wants (RFC 9110, 13.2.2).
  const range = !ranges || heldTag(request, etag) ? undefined : rangeOf(request, { bytes, tag });
  const { from, to } = range ?? { from: 0, to: bytes };
  return {
    etag,
    snapshotId,
    coding: "identity",
    price: "bytes",
    content: () => ({
      headers: {
        "Content-Type": contentType,
        "Content-Length": to - from,
        ...(ranges && { "Accept-Ranges": "bytes" }),
        ...(range && { "Content-Range": `bytes ${from}-${to - 1}/${bytes}` }),
      },
      partial: range !== undefined,
      // HEAD also tells the size to a caller whose units do not pay for the whole file.
      ...(request.method !== "HEAD" && { stream: file.read({ from, to }) }),
    }),
  };
}

/**
 * The one range that a request asks for, `to` exclusive. Undefined stands for the whole file, also where a request asks
 * for several ranges or If-Range names another file (RFC 9110, 14.2). HEAD has ranges too, as in S3: DuckDB in a
 * browser reads the whole file unless a HEAD with Range is answered 206.
 */
function rangeOf(
  { headers }: Request,
  { bytes, tag }: { bytes: number; tag: string },
): ByteRange | undefined {
  const [, first, last] = /^bytes=(\d*)-(\d*)$/i.exec(headers.range ?? "") ?? [];
  if ((headers["if-range"] ?? tag) !== tag || !(first || last)) return undefined;
  const from = first ? Number(first) : Math.max(0, bytes - Number(last));
  const to = first && last ? Math.min(bytes, Number(last) + 1) : bytes;
  if (first && last && Number(last) < from) return undefined;
  if (from < to) return { from, to };
  throw new Fault("RANGE_NOT_SATISFIABLE", "Content-Range says how many bytes the file has.", {
    size: bytes,
  });
}

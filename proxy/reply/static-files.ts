import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { sha256 } from "../../snapshots/store/sha256.ts";
import type { StaticFile } from "../site/static-file.ts";
import { tagsOf } from "./coding.ts";
import type { Reply } from "./reply.ts";

const compress = promisify(gzip);

/** Finds the reply of a static file by its address. Throws for an address that has none: a fault of ours. */
export function staticReplies(files: readonly StaticFile[]): (path: string) => Reply {
  const replies = new Map(files.map((file) => [file.path, replyOf(file)]));
  return (path) => {
    const reply = replies.get(path);
    if (!reply) throw new Error(`the address ${path} has no file`);
    return reply;
  };
}

function replyOf({ contentType, bytes, headers }: StaticFile): Reply {
  let zipped: Promise<Buffer> | undefined;
  return {
    snapshotId: undefined,
    etag: tagsOf(sha256(bytes)),
    // Names stay while contents change with the service's version: a page must not meet an older script.
    cacheControl: "no-cache",
    headers: { "Content-Type": contentType, Vary: "Accept-Encoding", ...headers },
    async body(coding) {
      if (coding === "identity") return [bytes];
      zipped ??= compress(bytes, { level: 9 });
      return [await zipped];
    },
  };
}

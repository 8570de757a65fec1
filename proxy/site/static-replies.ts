import { sha256 } from "../../snapshots/store/layout.ts";
import { compress, type Reply, tagsOf } from "../reply/reply.ts";
import type { StaticFile } from "./static-files.ts";

/**
 * Returns a function from the address of a static file to its reply. It throws Error for an address of the table
 * without a file.
 */
export function staticReplies(files: readonly StaticFile[]): (path: string) => Promise<Reply> {
  const byPath = new Map(files.map((file) => [file.path, file]));
  const replies = new Map<string, Reply>();
  return async (path) => {
    const file = byPath.get(path);
    if (!file) throw new Error(`the address ${path} has no file`);
    const reply = replies.get(path) ?? replyOf(file, await file.read());
    replies.set(path, reply);
    return reply;
  };
}

function replyOf({ contentType, headers }: StaticFile, bytes: Buffer): Reply {
  let zipped: Promise<Buffer> | undefined;
  return {
    snapshotId: undefined,
    etag: tagsOf(sha256(bytes)),
    // File names stay while contents change with the version of the service, and a page must not get an older script.
    cacheControl: "no-cache",
    headers: { "Content-Type": contentType, Vary: "Accept-Encoding", ...headers },
    async content(coding) {
      if (coding === "identity") return { body: [bytes] };
      zipped ??= compress(bytes, { level: 9 });
      return { body: [await zipped] };
    },
  };
}

import { sha256 } from "../../snapshots/store/layout.ts";
import { compress, tagsOf } from "../reply/coding.ts";
import type { Reply } from "../reply/reply.ts";
import type { StaticFile } from "./static-file.ts";

/**
 * A function from the address of a static file to its reply. It throws Error for an address of the table without a
 * file.
 */
export function staticReplies(files: readonly StaticFile[]): (path: string) => Reply {
  const replies = new Map(files.map((file) => [file.path, replyOf(file)]));
  return (path) => {
    const reply = replies.get(path);
    if (!reply) throw new Error(`the address ${path} has no file`);
    return reply;
  };
}

function replyOf(file: StaticFile): Reply {
  let tag: ReturnType<typeof tagsOf> | undefined;
  let zipped: Promise<Buffer> | undefined;
  return {
    snapshotId: undefined,
    etag(coding) {
      tag ??= tagsOf(sha256(file.bytes));
      return tag(coding);
    },
    // File names stay while contents change with the version of the service, and a page must not get an older script.
    cacheControl: "no-cache",
    headers: { "Content-Type": file.contentType, Vary: "Accept-Encoding", ...file.headers },
    async body(coding) {
      if (coding === "identity") return [file.bytes];
      zipped ??= compress(file.bytes, { level: 9 });
      return [await zipped];
    },
  };
}

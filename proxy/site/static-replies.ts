import { Memo } from "../../snapshots/read/budgets.ts";
import { sha256 } from "../../snapshots/store/layout.ts";
import { inEachCoding, type Reply, tagsOf } from "../reply/reply.ts";
import type { StaticFile } from "./static-files.ts";

export function staticReplies(files: readonly StaticFile[]): (path: string) => Promise<Reply> {
  const byPath = new Map(files.map((file) => [file.path, file]));
  const replies = new Memo<Reply>({ most: byPath.size || 1 });
  return async (path) => {
    const file = byPath.get(path);
    if (!file) throw new Error(`the address ${path} has no file`);
    return replies.get(path, () => replyOf(file));
  };
}

async function replyOf({ contentType, headers, read }: StaticFile): Promise<Reply> {
  const body = await inEachCoding(await read(), { level: 9 });
  return {
    snapshotId: undefined,
    etag: tagsOf(sha256(body.identity)),
    // File names stay while contents change with the version of the service, and a page must not get an older script.
    cacheControl: "no-cache",
    headers: { "Content-Type": contentType, Vary: "Accept-Encoding", ...headers },
    content: (coding) => ({ body: [body[coding]] }),
  };
}

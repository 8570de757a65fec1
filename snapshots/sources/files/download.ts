import { type FileHandle, open } from "node:fs/promises";
import { GetObjectCommand, type S3Client } from "@aws-sdk/client-s3";
import { describeS3Error, plainTag, statusOf } from "../../store/backends/s3.ts";
import type { S3Location } from "../../store/storage.ts";
import { StorageError } from "../../store/storage.ts";
import { SourceRefusal } from "../contract/refusals.ts";
import { changedRule } from "./source-files.ts";

/** An object of the sources in a listing. */
export interface RemoteFile {
  /** The key below the location. */
  name: string;
  bytes: number;
  /** The ETag without quotes. */
  tag: string;
}

interface Target {
  path: string;
  signal: AbortSignal;
  /** Called with the number of bytes that arrived; negative when they are discarded. */
  received: (bytes: number) => void;
}

/** Attempts at an object whose transfer breaks off. The SDK retries only failures before the body. */
const transferTries = 3;
// A slower transfer is aborted. The client's own limit only catches one that makes no progress at all.
const slowestBytesPerSecond = 256 * 1024;
const answerSeconds = 90;

/** The connection failed within a body, so another attempt may succeed. */
class BrokenTransfer extends Error {
  override readonly name = "BrokenTransfer";
}

/** For a file that is no longer the listed one. */
function changedFile(name: string): SourceRefusal {
  return new SourceRefusal([{ file: name, rule: changedRule }]);
}

/**
 * Streams an object to a new file in constant memory, and syncs the file. Throws SourceRefusal when the object is no
 * longer the listed one, StorageError when the store fails, and the file system's own errors.
 */
export async function download(
  client: S3Client,
  location: S3Location,
  file: RemoteFile,
  target: Target,
): Promise<void> {
  for (let tries = 1; ; tries += 1) {
    const output = await open(target.path, "w", 0o600);
    try {
      return await transfer(client, location, file, output, target);
    } catch (error) {
      if (!(error instanceof BrokenTransfer)) throw error;
      if (tries === transferTries || target.signal.aborted) throw failed(location, file, error.cause);
    } finally {
      await output.close();
    }
  }
}

async function transfer(
  client: S3Client,
  location: S3Location,
  file: RemoteFile,
  output: FileHandle,
  { signal, received }: Target,
): Promise<void> {
  const seconds = answerSeconds + file.bytes / slowestBytesPerSecond;
  const abortSignal = AbortSignal.any([signal, AbortSignal.timeout(Math.ceil(seconds * 1000))]);
  const body = await request(client, location, file, abortSignal);
  let length = 0;
  // Errors in this generator come from the connection; errors in writeFile outside it come from the disk.
  async function* chunks() {
    try {
      for await (const chunk of body) {
        abortSignal.throwIfAborted();
        length += chunk.length;
        if (length > file.bytes) throw new Error(`more than the ${file.bytes} bytes listed`);
        received(chunk.length);
        yield chunk;
      }
      if (length < file.bytes) throw new Error(`${length} of ${file.bytes} bytes`);
    } catch (error) {
      received(-length);
      throw new BrokenTransfer("broke off", { cause: error });
    }
  }
  await output.writeFile(chunks());
  // Without this, a power cut could leave an empty file under its final name.
  await output.sync();
}

async function request(
  client: S3Client,
  location: S3Location,
  { name, bytes, tag }: RemoteFile,
  abortSignal: AbortSignal,
): Promise<AsyncIterable<Uint8Array>> {
  try {
    const input = { Bucket: location.bucket, Key: location.prefix + name, IfMatch: tag };
    const {
      Body,
      ContentLength,
      ETag = "",
    } = await client.send(new GetObjectCommand(input), {
      abortSignal,
    });
    // A server that ignores If-Match would otherwise deliver new content under the old tag.
    if (plainTag(ETag) !== tag || ContentLength !== bytes) {
      if (Body && "destroy" in Body) Body.destroy();
      throw changedFile(name);
    }
    if (!Body || !(Symbol.asyncIterator in Body)) throw new Error("an answer without a body");
    return Body as AsyncIterable<Uint8Array>;
  } catch (error) {
    if (error instanceof SourceRefusal) throw error;
    if (statusOf(error) === 412 || statusOf(error) === 404) throw changedFile(name);
    throw failed(location, { name }, error);
  }
}

function failed({ bucket, prefix }: S3Location, { name }: { name: string }, cause: unknown): StorageError {
  const reason = describeS3Error(cause);
  return new StorageError(`s3://${bucket}/${prefix}: cannot read ${name}: ${reason}`, { cause });
}

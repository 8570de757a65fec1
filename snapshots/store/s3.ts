import { setTimeout as delay } from "node:timers/promises";
import {
  type _Object,
  DeleteObjectCommand,
  GetObjectCommand,
  type GetObjectCommandOutput,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
  S3ServiceException,
} from "@aws-sdk/client-s3";
import { NodeHttpHandler } from "@smithy/node-http-handler";
import { CorruptObjectError, tooLarge } from "./corrupt-object.ts";
import { DeadlineError, within } from "./deadline.ts";
import { headersOf } from "./layout.ts";
import { maxObjectBytes, type ObjectInfo, type Storage, StorageError } from "./storage.ts";

/** How long things may take; all in seconds. The SDK itself would wait for ever. */
export interface S3Limits {
  connectSeconds: number;
  /** Of one attempt: until its answer begins, and between two pieces of the body. */
  attemptSeconds: number;
  /** All attempts of one operation. */
  operationSeconds: number;
  /** Of a request, and of a body that breaks off. */
  attempts: number;
}

const defaultLimits: S3Limits = { connectSeconds: 5, attemptSeconds: 30, operationSeconds: 90, attempts: 4 };

/** Requests under way at the same time. */
const maxSockets = 32;
/** Tries of a conditional put that meets another one: the SDK does not repeat a 409. */
const conflictTries = 8;
/** Between two tries of our own, times how many there were. */
const retryMilliseconds = 50;

/** A bucket and the prefix of the store's keys in it, "" or ended by "/". */
export interface S3Location {
  bucket: string;
  prefix: string;
}

/** Reads `s3://bucket` or `s3://bucket/prefix`; undefined for anything else. */
export function parseS3Location(location: string): S3Location | undefined {
  const [, bucket, path = ""] = /^s3:\/\/([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:\/(.*))?$/.exec(location) ?? [];
  const prefix = path.replace(/\/+$/, "");
  return bucket === undefined ? undefined : { bucket, prefix: prefix === "" ? "" : `${prefix}/` };
}

/** The standard AWS variables that this module looks at; credentials are the SDK's own business. */
export interface S3Environment {
  AWS_ENDPOINT_URL_S3?: string | undefined;
  AWS_ENDPOINT_URL?: string | undefined;
  AWS_REGION?: string | undefined;
  AWS_DEFAULT_REGION?: string | undefined;
}

/** A client on the standard credential chain. A server other than AWS is addressed by path: it has no name per bucket. */
export function createS3Client(environment: S3Environment, limits: S3Limits = defaultLimits): S3Client {
  const endpoint = environment.AWS_ENDPOINT_URL_S3 ?? environment.AWS_ENDPOINT_URL;
  return new S3Client({
    region: environment.AWS_REGION ?? environment.AWS_DEFAULT_REGION ?? "us-east-1",
    ...(endpoint && { endpoint, forcePathStyle: true }),
    maxAttempts: limits.attempts,
    // Objects are checked by their own hashes; the SDK's checksum trailers are refused by some S3 servers.
    requestChecksumCalculation: "WHEN_REQUIRED",
    responseChecksumValidation: "WHEN_REQUIRED",
    requestHandler: new NodeHttpHandler({
      connectionTimeout: limits.connectSeconds * 1000,
      requestTimeout: limits.attemptSeconds * 1000,
      throwOnRequestTimeout: true,
      socketTimeout: limits.attemptSeconds * 1000,
      httpAgent: { keepAlive: true, maxSockets },
      httpsAgent: { keepAlive: true, maxSockets },
    }),
  });
}

/** The HTTP status that an error of the SDK tells of. */
export function statusOf(error: unknown): number | undefined {
  return error instanceof S3ServiceException ? error.$metadata.httpStatusCode : undefined;
}

/** A store in an S3 bucket. */
export function s3Storage(
  { bucket, prefix }: S3Location,
  client: S3Client,
  { operationSeconds, attempts }: Pick<S3Limits, "operationSeconds" | "attempts"> = defaultLimits,
): Storage {
  const location = `s3://${bucket}/${prefix}`;

  /** Runs an operation within its deadline; a failure names store, operation and key, and never a credential. */
  async function inTime<T>(
    operation: string,
    key: string,
    work: (options: { abortSignal: AbortSignal }) => Promise<T>,
    signal?: AbortSignal,
  ): Promise<T> {
    try {
      return await within(operationSeconds, (abortSignal) => work({ abortSignal }), signal);
    } catch (error) {
      if (error instanceof CorruptObjectError) throw error;
      const reason = error instanceof DeadlineError ? error.message : describeS3Error(error);
      throw new StorageError(`${location}: cannot ${operation} ${key}: ${reason}`, { cause: error });
    }
  }

  const input = (key: string) => ({ Bucket: bucket, Key: prefix + key });
  const putInput = (key: string, body: Uint8Array) => {
    const { contentType, cacheControl } = headersOf(key);
    // A Buffer, not a stream: its length is known, which every S3 server accepts.
    return {
      ...input(key),
      Body: Buffer.from(body.buffer, body.byteOffset, body.byteLength),
      ContentType: contentType,
      CacheControl: cacheControl,
    };
  };

  /** Undefined when there is no such object. */
  async function read(
    key: string,
    maxBytes: number,
    options: { abortSignal: AbortSignal },
  ): Promise<Buffer | undefined> {
    for (let tries = 1; ; tries += 1) {
      const answer = await client.send(new GetObjectCommand(input(key)), options).catch((error) => {
        if (statusOf(error) === 404 && !isMissingBucket(error)) return undefined;
        throw error;
      });
      if (!answer) return undefined;
      try {
        return await bodyOf(answer, key, maxBytes);
      } catch (error) {
        // The SDK repeats what fails before the body, not a body that breaks off.
        if (error instanceof CorruptObjectError || tries === attempts) throw error;
        await delay(retryMilliseconds * tries, undefined, { signal: options.abortSignal });
      }
    }
  }

  return {
    location,

    get(key, { maxBytes = maxObjectBytes, signal } = {}) {
      return inTime("read", key, (options) => read(key, maxBytes, options), signal);
    },

    put(key, body) {
      return inTime("write", key, async (options) => {
        await client.send(new PutObjectCommand(putInput(key, body)), options);
      });
    },

    putIfAbsent(key, body) {
      return inTime("create", key, async (options) => {
        for (let tries = 1; ; tries += 1) {
          try {
            await client.send(new PutObjectCommand({ ...putInput(key, body), IfNoneMatch: "*" }), options);
            return true;
          } catch (error) {
            if (statusOf(error) === 412) return false;
            if (statusOf(error) !== 409 || tries === conflictTries) throw error;
            await delay(retryMilliseconds * tries, undefined, { signal: options.abortSignal });
          }
        }
      });
    },

    replace(key, body, tag) {
      return inTime("replace", key, async (options) => {
        const replacement = { ...putInput(key, body), IfMatch: tag };
        try {
          await client.send(new PutObjectCommand(replacement), options);
          return true;
        } catch (error) {
          const status = statusOf(error);
          // Somebody else has changed it (412), is about to (409), or has deleted it (404).
          if (status === 412 || status === 409 || (status === 404 && !isMissingBucket(error))) return false;
          // A server that knows no If-Match of a put leaves nothing but the plain one.
          if (status !== 501) throw error;
          await client.send(new PutObjectCommand({ ...replacement, IfMatch: undefined }), options);
          return true;
        }
      });
    },

    async *list(under) {
      let token: string | undefined;
      do {
        const page = await inTime("list", under, (options) =>
          client.send(
            new ListObjectsV2Command({ Bucket: bucket, Prefix: prefix + under, ContinuationToken: token }),
            options,
          ),
        );
        for (const entry of page.Contents ?? []) yield infoOf(entry, prefix);
        token = page.NextContinuationToken;
        // Stopping here would silently make a part look like the whole.
        if (page.IsTruncated && !token)
          throw new StorageError(`${location}: a listing of ${under} has no continuation`);
      } while (token);
    },

    delete(key) {
      return inTime("delete", key, async (options) => {
        await client.send(new DeleteObjectCommand(input(key)), options);
      });
    },
  };
}

/** The whole body of an answer. Throws CorruptObjectError beyond `maxBytes`, whatever length the answer tells. */
async function bodyOf(
  { Body, ContentLength }: GetObjectCommandOutput,
  key: string,
  maxBytes: number,
): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  // Leaving the loop ends the transfer: a body left unread would keep its connection.
  for await (const chunk of (Body ?? []) as AsyncIterable<Uint8Array>) {
    if (Math.max(length + chunk.length, ContentLength ?? 0) > maxBytes)
      throw tooLarge(key, ContentLength ?? length + chunk.length, maxBytes);
    length += chunk.length;
    chunks.push(chunk);
  }
  if (length !== (ContentLength ?? length)) throw new Error(`${length} of ${ContentLength} bytes`);
  return Buffer.concat(chunks, length);
}

function infoOf(entry: _Object, prefix: string): ObjectInfo {
  const { Key = "", Size = 0, LastModified = new Date(0), ETag = "" } = entry;
  return { key: Key.slice(prefix.length), bytes: Size, modified: LastModified, tag: plainTag(ETag) };
}

/** An ETag without its quotes: some servers want it so in If-Match. */
export function plainTag(tag: string): string {
  return tag.replace(/^"(.*)"$/, "$1");
}

function isMissingBucket(error: unknown): boolean {
  return error instanceof S3ServiceException && error.name === "NoSuchBucket";
}

/** An error of the SDK in a line that names no credential. */
export function describeS3Error(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const status = statusOf(error);
  return [status, error.name, error.message].filter(Boolean).join(" ");
}

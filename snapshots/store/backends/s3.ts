import { hash } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import {
  type _Object,
  DeleteObjectCommand,
  GetObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
  S3ServiceException,
} from "@aws-sdk/client-s3";
import { NodeHttpHandler } from "@smithy/node-http-handler";
import { isFault } from "../../../schemas/errors.ts";
import { maxObjectBytes } from "../../format/bytes.ts";
import { within } from "../deadline.ts";
import { CorruptObjectError, tooLarge, tooShort } from "../errors.ts";
import { headersOf } from "../layout.ts";
import {
  type GetOptions,
  type ObjectInfo,
  readAll,
  type S3Location,
  type Storage,
  StorageError,
} from "../storage.ts";

/** Without these limits the SDK would wait for ever. */
export interface S3Limits {
  connectSeconds: number;
  /** The longest wait of one attempt for the response to begin, and between two chunks of its body. */
  attemptSeconds: number;
  /** The longest time for an operation with all its attempts. */
  operationSeconds: number;
  /** Attempts at a request, and at reading a body that breaks off. */
  attempts: number;
}

const defaultLimits: S3Limits = { connectSeconds: 5, attemptSeconds: 30, operationSeconds: 90, attempts: 4 };

const maxSockets = 128;
/**
 * Attempts at a conditional put that is answered with 409 because another is in progress. The SDK does not retry it.
 */
const conflictTries = 8;
/** The wait before our own retries, multiplied by the number of attempts made so far. */
const retryMilliseconds = 50;

/**
 * The standard AWS variables that this module reads. The SDK finds the credentials by itself, and the agents of Node
 * look in the same environment for a forward proxy.
 */
export type S3Environment = Partial<
  Record<"AWS_ENDPOINT_URL_S3" | "AWS_ENDPOINT_URL" | "AWS_REGION" | "AWS_DEFAULT_REGION", string | undefined>
>;

/**
 * An S3 client that uses the standard credential chain. A custom endpoint is addressed in path style, because it need
 * not have a host name per bucket.
 */
export function createS3Client(environment: S3Environment, limits: S3Limits = defaultLimits): S3Client {
  const agent = { keepAlive: true, maxSockets, proxyEnv: { ...environment } };
  const endpoint = environment.AWS_ENDPOINT_URL_S3 ?? environment.AWS_ENDPOINT_URL;
  return new S3Client({
    region: environment.AWS_REGION ?? environment.AWS_DEFAULT_REGION ?? "us-east-1",
    ...(endpoint && { endpoint, forcePathStyle: true }),
    maxAttempts: limits.attempts,
    // Some S3 servers refuse the SDK's checksum trailers, and objects are checked by their own hashes anyway.
    requestChecksumCalculation: "WHEN_REQUIRED",
    responseChecksumValidation: "WHEN_REQUIRED",
    requestHandler: new NodeHttpHandler({
      connectionTimeout: limits.connectSeconds * 1000,
      requestTimeout: limits.attemptSeconds * 1000,
      throwOnRequestTimeout: true,
      socketTimeout: limits.attemptSeconds * 1000,
      httpAgent: agent,
      httpsAgent: agent,
    }),
  });
}

/** The HTTP status of the response that caused an SDK error; undefined when there was none. */
export function statusOf(error: unknown): number | undefined {
  return error instanceof S3ServiceException ? error.$metadata.httpStatusCode : undefined;
}

export function s3Storage(
  { bucket, prefix }: S3Location,
  client: S3Client,
  { operationSeconds, attempts }: Pick<S3Limits, "operationSeconds" | "attempts"> = defaultLimits,
  warn: (line: string) => void = () => {},
): Storage {
  const location = `s3://${bucket}/${prefix}`;
  let takesChecksums = true;

  /** An error names the store, the operation and the key, never a credential. */
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
      const reason = isFault(error, "DEADLINE") ? error.message : describeS3Error(error);
      throw new StorageError(`${location}: cannot ${operation} ${key}: ${reason}`, { cause: error });
    }
  }

  const input = (key: string) => ({ Bucket: bucket, Key: prefix + key });
  const putInput = (key: string, body: Uint8Array) => {
    const { contentType, cacheControl } = headersOf(key);
    // A Buffer rather than a stream, because its length is known. Not every S3 server accepts an unknown length.
    return {
      ...input(key),
      Body: Buffer.from(body.buffer, body.byteOffset, body.byteLength),
      ContentType: contentType,
      CacheControl: cacheControl,
    };
  };

  /** Sends a checksum of the bytes, unless the server refuses the header. */
  async function putChecked(key: string, body: Uint8Array, options: { abortSignal: AbortSignal }) {
    const input = putInput(key, body);
    if (!takesChecksums) return client.send(new PutObjectCommand(input), options);
    try {
      const checked = { ...input, ChecksumSHA256: hash("sha256", body, "base64") };
      return await client.send(new PutObjectCommand(checked), options);
    } catch (error) {
      // Servers that know the header also answer 400, when they have received other bytes.
      const isRefused = [400, 501].includes(statusOf(error) ?? 0) && !isNamed(error, "BadDigest");
      if (!isRefused) throw error;
      const answer = await client.send(new PutObjectCommand(input), options);
      const why = describeS3Error(error);
      if (takesChecksums)
        warn(`${location} refuses x-amz-checksum-sha256, so what is stored is compared otherwise (${why})`);
      takesChecksums = false;
      return answer;
    }
  }

  async function read(
    key: string,
    { maxBytes = maxObjectBytes, range }: GetOptions,
    options: { abortSignal: AbortSignal },
  ): Promise<Buffer | undefined> {
    const part = range && { Range: `bytes=${range.offset}-${range.offset + range.bytes - 1}` };
    for (let tries = 1; ; tries += 1) {
      const answer = await client
        .send(new GetObjectCommand({ ...input(key), ...part }), options)
        .catch((error) => {
          if (statusOf(error) === 404 && !isNamed(error, missingBucket)) return undefined;
          if (range && statusOf(error) === 416) throw tooShort(key, range);
          throw error;
        });
      if (!answer) return undefined;
      try {
        const { Body = [], ContentLength } = answer;
        const [size = 0, most] = [ContentLength, range?.bytes ?? maxBytes];
        // Beyond `most`, nothing is read, whatever Content-Length says.
        const body = await readAll(Body as AsyncIterable<Uint8Array>, size > most ? 0 : most, (bytes) => {
          throw tooLarge(key, ContentLength ?? bytes, most);
        });
        if (body.length !== (ContentLength ?? body.length))
          throw new Error(`${body.length} of ${ContentLength} bytes`);
        if (range && body.length < range.bytes) throw tooShort(key, range);
        return body;
      } catch (error) {
        // The SDK retries a failed request, but not a body that breaks off.
        if (error instanceof CorruptObjectError || tries === attempts) throw error;
        await delay(retryMilliseconds * tries, undefined, { signal: options.abortSignal });
      }
    }
  }

  return {
    location,
    // The SDK sets this once the Date of an answer is four minutes or more off.
    clockAhead: () => client.config.systemClockOffset,

    get(key, what = {}) {
      return inTime("read", key, (options) => read(key, what, options), what.signal);
    },

    put(key, body) {
      return inTime("write", key, async (options) => {
        const { ChecksumSHA256, ETag } = await putChecked(key, body, options);
        // A server that knows the checksum refuses other bytes, and repeats it. Others return the MD5 of what they
        // received.
        return (
          ChecksumSHA256 === hash("sha256", body, "base64") || plainTag(ETag ?? "") === hash("md5", body)
        );
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
          // Another writer has changed the object (412), is changing it (409), or has deleted it (404).
          if (status === 412 || status === 409 || (status === 404 && !isNamed(error, missingBucket)))
            return false;
          // The server does not support If-Match on a put, so only an unconditional put remains.
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
        // Stopping here would silently return an incomplete listing.
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

function infoOf(entry: _Object, prefix: string): ObjectInfo {
  const { Key = "", Size = 0, LastModified = new Date(0), ETag = "" } = entry;
  return { key: Key.slice(prefix.length), bytes: Size, modified: LastModified, tag: plainTag(ETag) };
}

/** Strips the quotes, which some servers refuse in If-Match. */
export function plainTag(tag: string): string {
  return tag.replace(/^"(.*)"$/, "$1");
}

const missingBucket = "NoSuchBucket";

function isNamed(error: unknown, name: string): boolean {
  return error instanceof S3ServiceException && error.name === name;
}

/** Describes an SDK error in one line without credentials. */
export function describeS3Error(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const status = statusOf(error);
  return [status, error.name, error.message].filter(Boolean).join(" ");
}

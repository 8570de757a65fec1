import { type Fault, isFault } from "../../../schemas/errors.ts";
import type { Filters } from "../../../schemas/filters.ts";
import { bytesOf } from "../../../snapshots/format/bytes.ts";
import type { Query, ReadText, Rows } from "./answers.ts";
import type * as errors from "./errors.ts";
import type * as proofs from "./proofs.ts";
import type { CallOptions } from "./types.ts";

/** A request. */
export interface RequestOptions extends CallOptions {
  query?: Query;
  accept?: string;
  body?: string;
}

/**
 * What is read of an answer: all of its text, or of its at most so many bytes, within one timeout; or its bytes with
 * one for each piece.
 */
export type Read<T> = (answer: {
  response: Response;
  text: ReadText;
  bytes: (most: number) => Promise<Uint8Array<ArrayBuffer>>;
  bytesByPiece: (most: number) => Promise<Uint8Array<ArrayBuffer>>;
}) => Promise<T>;

/**
 * What the client lends to recompute.mjs. Requests are then counted, timed and repeated alike, and errors are of the
 * classes that callers know: with a copy of its own they would be of others.
 */
export interface Tools
  extends Pick<typeof errors, "ApiError" | "IntegrityError" | "VerificationError" | "broken">,
    Pick<typeof proofs, "ForkedLogError" | "checkpointIn" | "verifyCheckpoint" | "verifyEntry"> {
  client: {
    requireSameLog: (before: string, after: string, options?: CallOptions) => Promise<void>;
    rows: (query: Filters, options: CallOptions) => Rows;
  };
  ask: <T>(path: string, how: RequestOptions, read: Read<T>) => Promise<T>;
}

/** What a call has asked for so far. */
export interface Job {
  bytes: number;
  requests: number;
  signal: AbortSignal | undefined;
}

export type Asker = ReturnType<typeof askerOf>;

/** Asks the service, of which nothing is believed, and names what does not hold. */
export function askerOf(tools: Tools) {
  const { ApiError, ForkedLogError, IntegrityError, VerificationError } = tools;

  function invalid(detail: string, parameter?: string): Error {
    return new ApiError("INVALID_PARAMETER", detail, {
      title: "Invalid parameter",
      ...(parameter !== undefined && { parameter }),
    });
  }

  /** Reads what the caller asks for: whatever is wrong with it is the caller's mistake, and no fault of the service. */
  function reading<T>(read: () => T): T {
    try {
      return read();
    } catch (error) {
      const { message, extras } = error as Fault;
      throw invalid(message, extras?.parameter);
    }
  }

  function need(holds: unknown, what: string, detail: string): void {
    if (!holds) throw new VerificationError(what, detail);
  }

  /** Names what does not hold when `work` throws, unless the caller's `signal` ended it. */
  async function checking<T>(
    what: string,
    name: string,
    work: () => T,
    signal?: AbortSignal,
  ): Promise<Awaited<T>> {
    try {
      return await work();
    } catch (error) {
      signal?.throwIfAborted();
      if (error instanceof VerificationError || error instanceof ForkedLogError) throw error;
      if (isFault(error, "INVALID_PARAMETER")) throw invalid(error.message, error.extras.parameter);
      if (error instanceof ApiError && !(error instanceof IntegrityError)) throw error;
      throw new VerificationError(what, `${name}: ${error instanceof Error ? error.message : error}`);
    }
  }

  /** An answer in JSON, whatever its members are. */
  async function json<Said>(job: Job, path: string, query: Query): Promise<Said> {
    const text = await tools.ask(path, { query, signal: job.signal }, ({ text }) => text(String));
    job.bytes += bytesOf(text).length;
    job.requests += 1;
    const answer: unknown = await checking("answer", `The answer of ${path}`, () => JSON.parse(text));
    const isObject = typeof answer === "object" && answer !== null;
    need(isObject, "answer", `The answer of ${path} is no object.`);
    return answer as Said;
  }

  /** An answer of exactly so many bytes. What sends more is cut off. */
  function bytes(job: Job, path: string, query: Query, total: number): Promise<Uint8Array<ArrayBuffer>> {
    const accept = "application/octet-stream";
    return tools.ask(path, { query, accept, signal: job.signal }, async ({ bytesByPiece }) => {
      const received = await bytesByPiece(total);
      if (received.length < total) throw tools.broken(`${received.length} of ${total} bytes came.`);
      job.bytes += total;
      job.requests += 1;
      return received;
    });
  }

  return { tools, invalid, reading, need, checking, json, bytes };
}

// What client.ts lends to recompute.mjs: it asks the service, and has the classes of the errors.

import type { Query, ReadText, Rows } from "./answers.ts";
import { ApiError, broken, IntegrityError, VerificationError } from "./errors.ts";
import { checkpointIn, ForkedLogError, verifyCheckpoint, verifyEntry } from "./proofs.ts";
import type { Filters } from "./records.d.ts";
import type { CallOptions } from "./types.ts";

/** @internal A request. */
export interface Asked extends CallOptions {
  query?: Query;
  accept?: string;
  body?: string;
}

/**
 * @internal What is read of an answer: all of its text, or of its at most so many bytes, within one timeout; or its
 * bytes with one for each piece.
 */
export type Read<T> = (answer: {
  response: Response;
  text: ReadText;
  bytes: (most: number) => Promise<Uint8Array<ArrayBuffer>>;
  bytesByPiece: (most: number) => Promise<Uint8Array<ArrayBuffer>>;
}) => Promise<T>;

/** @internal What recompute.mjs has from here: with a copy of its own, errors would be of another class. */
export const shared = {
  ApiError,
  ForkedLogError,
  IntegrityError,
  VerificationError,
  broken,
  checkpointIn,
  verifyCheckpoint,
  verifyEntry,
};

/** @internal What recompute.mjs asks the service with, so that its requests are counted, timed and repeated alike. */
export interface Lent {
  client: {
    requireSameLog: (before: string, after: string, options?: CallOptions) => Promise<void>;
    rows: (query: Filters, options: CallOptions) => Rows;
  };
  ask: <T>(path: string, how: Asked, read: Read<T>) => Promise<T>;
}

/** @internal */
export type Tools = typeof shared & Lent;

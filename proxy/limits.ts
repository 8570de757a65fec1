import type { S3Limits } from "../snapshots/store/s3.ts";

/**
 * How long things may take, in seconds, and how many there may be at a time. Whatever waits for another thing waits
 * longer than that may take: else a caller would be cut off before it could be told what is wrong.
 */
export interface Limits {
  /** A request's head, from its first byte to its last. */
  headSeconds: number;
  /** A whole request. */
  requestSeconds: number;
  /** A connection without a request. */
  idleSeconds: number;
  /** A connection on which nothing moves, as when a client does not read. */
  stalledSeconds: number;
  /** Until an answer is ready. */
  answerSeconds: number;
  /** Until an answer has been taken, to its last byte; one in NDJSON has as long for every 500 rows. */
  sendSeconds: number;
  /** One fetch from the origin. */
  originSeconds: number;
  /** One look into the store for a snapshot, or for keys. */
  roundSeconds: number;
  /** What is read from a store on S3. */
  store: S3Limits;
  /** Connections of one process; more are turned away. */
  connections: number;
}

export const defaultLimits: Limits = {
  headSeconds: 10,
  requestSeconds: 25,
  idleSeconds: 65, // above the 60 s of common load balancers, so that they close first
  stalledSeconds: 30,
  answerSeconds: 25,
  sendSeconds: 180,
  originSeconds: 10,
  roundSeconds: 120, // a snapshot's indexes are many operations
  store: { connectSeconds: 2, attemptSeconds: 4, operationSeconds: 15, attempts: 3 },
  connections: 2000,
};

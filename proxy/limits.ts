import type { S3Limits } from "../snapshots/store/backends/s3.ts";

/**
 * Deadlines in seconds, and bounds of what is open at a time. A deadline is always longer than those of what it waits
 * for: otherwise a caller would be cut off before the proxy could say what is wrong.
 */
export const defaultLimits = {
  /** The head of a request, from its first byte to its last. */
  headSeconds: 10,
  requestSeconds: 25,
  /** A connection on which no byte moves, for example because the client does not read. */
  stalledSeconds: 30,
  answerSeconds: 25,
  /** Sending an answer; in an answer with all rows, every 500 of them. */
  sendSeconds: 180,
  /** A command of a quota store. Far longer than a round trip, far shorter than a caller waits. */
  quotaSeconds: 1,
  originSeconds: 10,
  /** One poll of the store for a snapshot or for keys. Loading the indexes of a snapshot takes many operations. */
  roundSeconds: 120,
  store: { connectSeconds: 2, attemptSeconds: 4, operationSeconds: 15, attempts: 3 } satisfies S3Limits,
  /** Connections of one process. Before they are all taken, those that have been idle for longest are closed. */
  connections: 2000,
};

export type Limits = typeof defaultLimits;

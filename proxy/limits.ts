/** How long things may take, in seconds, and how many there may be at a time. */
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
  /** Connections of one process; more are turned away. */
  connections: number;
}

export const defaultLimits: Limits = {
  headSeconds: 10,
  requestSeconds: 30,
  idleSeconds: 65, // above the 60 s of common load balancers, so that they close first
  stalledSeconds: 30,
  answerSeconds: 30,
  sendSeconds: 180,
  originSeconds: 10,
  connections: 2000,
};

import { BrokenCircuitError, CircuitState, ConsecutiveBreaker, circuitBreaker, handleWhen } from "cockatiel";
import { type ErrorCode, Fault, isFault } from "../../schemas/errors.ts";
import { isPublic } from "../../schemas/problem.ts";
import { ObjectError } from "../../snapshots/store/errors.ts";
import { StorageError } from "../../snapshots/store/storage.ts";

/**
 * Translates anything thrown into what the caller is told. An error with a public code stays as it is. Messages that
 * name objects of the store are logged and not shown. Anything unexpected becomes INTERNAL and tells the caller
 * nothing.
 */
export function publicError(thrown: unknown): Fault<ErrorCode> {
  if (thrown instanceof Fault && isPublic(thrown.code)) return thrown;
  if (isFault(thrown, "DAMAGED_LOG"))
    return new Fault("SNAPSHOT_UNAVAILABLE", thrown.message, { cause: thrown.cause });
  const hidden = (code: ErrorCode, detail: string) => new Fault(code, detail, { cause: thrown });
  if (thrown instanceof ObjectError || thrown instanceof StorageError)
    return hidden(
      "SNAPSHOT_UNAVAILABLE",
      "The archive cannot be read right now; try again in a few seconds.",
    );
  if (isFault(thrown, "DEADLINE"))
    return hidden("UPSTREAM_TIMEOUT", "The answer was not ready in time; try again.");
  return hidden("INTERNAL", "Something went wrong on our side; the request id identifies it.");
}

// This many failures in a row mean that a peer is away, not that one request had bad luck.
const failures = 5;
const restMilliseconds = 1000;

/**
 * A circuit breaker for a peer that may be away. After five failures in a row it rests for a second, then one request
 * tries the peer. Meanwhile all others fail at once with BrokenCircuitError instead of waiting for their deadlines.
 * `counts` tells which failures concern the peer and not only one request.
 */
export function guardPeer(counts: (error: Error) => boolean = () => true) {
  const policy = circuitBreaker(handleWhen(counts), {
    halfOpenAfter: restMilliseconds,
    breaker: new ConsecutiveBreaker(failures),
  });
  return async <T>(work: () => Promise<T>): Promise<T> => {
    // While one request tries, cockatiel would make the others wait for its outcome.
    if (policy.state === CircuitState.HalfOpen) throw new BrokenCircuitError();
    return policy.execute(work);
  };
}

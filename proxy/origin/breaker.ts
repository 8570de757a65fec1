import { BrokenCircuitError, CircuitState, ConsecutiveBreaker, circuitBreaker, handleWhen } from "cockatiel";

// So many failures one after the other mean that a peer is away, not that one request had bad luck.
const failures = 5;
const restMilliseconds = 1000;

/**
 * Guards a peer that may be away: after five failures in a row it is left alone for a second, then one
 * request tries it. Meanwhile all others fail at once with BrokenCircuitError, instead of each waiting for its
 * own deadline. `counts` tells which failures speak of the peer rather than of the one request.
 */
export function guardPeer(counts: (error: Error) => boolean = () => true) {
  const policy = circuitBreaker(handleWhen(counts), {
    halfOpenAfter: restMilliseconds,
    breaker: new ConsecutiveBreaker(failures),
  });
  return async <T>(work: () => Promise<T>): Promise<T> => {
    // While one request tries, the policy would let the others wait for its outcome.
    if (policy.state === CircuitState.HalfOpen) throw new BrokenCircuitError();
    return policy.execute(work);
  };
}

import { BrokenCircuitError, CircuitState, ConsecutiveBreaker, circuitBreaker, handleWhen } from "cockatiel";

// This many failures in a row mean that a peer is away, not that one request had bad luck.
const failuresToOpen = 5;

const restMilliseconds = 1000;

/**
 * A circuit breaker for a peer that may be away. After five failures in a row it rests for a second, then one request
 * tries the peer. Meanwhile all others fail at once with BrokenCircuitError instead of waiting for their deadlines.
 * `counts` says whether a failure concerns the peer, or one request only.
 */
export function guardPeer(counts: (error: Error) => boolean = () => true) {
  const policy = circuitBreaker(handleWhen(counts), {
    halfOpenAfter: restMilliseconds,
    breaker: new ConsecutiveBreaker(failuresToOpen),
  });
  return async <T>(work: () => Promise<T>): Promise<T> => {
    // While one request tries, cockatiel would make the others wait for its outcome.
    if (policy.state === CircuitState.HalfOpen) throw new BrokenCircuitError();
    return policy.execute(work);
  };
}

import { type Kernel, type Process, Violation } from "./kernel.ts";

/** The network failed, or nobody answers. */
export class Unreachable extends Error {
  override readonly name = "Unreachable";
}

const patience = 60_000;

/**
 * Asks another process over a network that may lose the question or the answer, or bring the question twice. Throws
 * Unreachable, or what the work throws.
 */
export function asked<T>(
  kernel: Kernel,
  from: Process,
  to: Process | undefined,
  work: () => Promise<T>,
): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  kernel.at(kernel.now + patience, from, () => reject(new Unreachable("no answer")));
  const delay = () => 1 + from.draw(50);
  const chance = from.draw(100);
  const once = (answers: boolean) =>
    kernel.at(kernel.now + delay(), to, () => {
      const back = (run: () => void) => answers && kernel.at(kernel.now + delay(), from, run);
      work().then(
        (value) => back(() => resolve(value)),
        (error) => (error instanceof Violation ? kernel.fail(error) : back(() => reject(error))),
      );
    });
  if (!to || chance < 2) return promise;
  if (chance < 4) once(false);
  else once(true);
  if (chance >= 97) once(false);
  return promise;
}

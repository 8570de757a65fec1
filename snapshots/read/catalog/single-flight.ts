/** Lets calls of one name share the work that is under way for it. */
export class SingleFlight<T> {
  readonly #underway = new Map<string, Promise<T>>();

  /** Throws what the work throws, to every caller. */
  run(name: string, work: () => Promise<T>): Promise<T> {
    const known = this.#underway.get(name);
    if (known) return known;
    const begun = work().finally(() => this.#underway.delete(name));
    this.#underway.set(name, begun);
    return begun;
  }
}

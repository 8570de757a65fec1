/** What must happen at the end, whatever happened before; the last that was added comes first. */
export class Endings {
  readonly #endings: (() => Promise<void> | void)[] = [];

  add(end: () => Promise<void> | void): void {
    this.#endings.push(end);
  }

  /** Goes through all of it, also when some fails; throws the first failure at the end. */
  async run(): Promise<void> {
    const failures: unknown[] = [];
    for (let end = this.#endings.pop(); end; end = this.#endings.pop()) {
      try {
        await end();
      } catch (error) {
        failures.push(error);
      }
    }
    if (failures.length > 0) throw failures[0];
  }
}

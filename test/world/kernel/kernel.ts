import type { Draw } from "../../helpers/store/drawing.ts";
import { Disk } from "./disk.ts";
import { type Asked, hostedBy, settled } from "./virtual.ts";

/** Another seed for each number: draws of one part of a world do not depend on the others. */
export const seedOf = (seed: number, number: number) =>
  Math.imul(seed ^ Math.imul(number + 1, 0x9e3779b1), 0x85ebca6b) ^ (seed >>> 3);

/** Something that must never be so was so. */
export class Violation extends Error {
  override readonly name = "Violation";
}

/** Throws Violation unless something is so. `told` says what was found instead. */
export function must(rule: string, holds: boolean, told: () => string = () => ""): asserts holds {
  if (!holds) throw new Violation(`${rule}: ${told()}`);
}

/** A process of a machine: it runs until its work ends or it is killed. */
export class Process {
  readonly name: string;
  readonly draw: Draw;
  /** By how many milliseconds its machine's clock is ahead. */
  readonly ahead: number;
  /** When it starts. */
  began = 0;
  /** Operations that it has begun. */
  operations = 0;
  /** Whether what it does on its disk takes time, so that it may be killed in between. */
  slowDisk = false;
  state: "running" | "ended" | "killed" = "running";
  readonly #over = Promise.withResolvers<void>();

  constructor(name: string, draw: Draw, ahead: number) {
    this.name = name;
    this.draw = draw;
    this.ahead = ahead;
  }

  /** Settles when it has ended or was killed. */
  get over(): Promise<void> {
    return this.#over.promise;
  }

  end(state: "ended" | "killed"): void {
    if (this.state !== "running") return;
    this.state = state;
    this.#over.resolve();
  }
}

interface Happening {
  at: number;
  process: Process | undefined;
  run: () => void;
  off: boolean;
}

/** So much happens in no world that ends. */
const mostHappenings = 300_000;

/** The time of a world, and all that is going to happen in it, one thing after the other. */
export class Kernel {
  /** Epoch milliseconds. */
  now: number;
  /** What happened, a line each. */
  readonly trace: string[] = [];
  readonly disk = new Disk();
  /** Answers what processes fetch. */
  fetch: (from: Process, url: string, given: Asked) => Promise<unknown> = async () => {
    throw new TypeError("fetch failed");
  };
  /** The next one is the last. */
  readonly #ahead: Happening[] = [];
  readonly #processes: Process[] = [];
  #running: Process | undefined;
  #failure: unknown;

  constructor(now: number) {
    this.now = now;
    this.disk.pace = async (work) => {
      const process = this.#running;
      if (process?.slowDisk) await this.wait(process, 1);
      return work();
    };
  }

  note(what: string): void {
    this.trace.push(`${this.now} ${what}`);
  }

  /** Lets something happen at a time; with a process, unless that is gone by then. Returns what prevents it. */
  at(at: number, process: Process | undefined, run: () => void): () => void {
    const happening = { at: Math.max(at, this.now), process, run, off: false };
    this.#ahead.splice(this.#ahead.findLastIndex((each) => each.at > happening.at) + 1, 0, happening);
    return () => {
      happening.off = true;
    };
  }

  /** Starts a process at a time. What its work throws is a failure of the world. */
  start(at: number, process: Process, work: () => Promise<void>): void {
    this.#processes.push(process);
    process.began = at;
    this.at(at, process, () => {
      this.note(`${process.name} starts`);
      work().then(
        () => {
          if (process.state === "running") this.note(`${process.name} ends`);
          process.end("ended");
        },
        (error) => this.fail(error),
      );
    });
  }

  kill(process: Process): void {
    if (process.state !== "running") return;
    this.note(`${process.name} is killed`);
    process.end("killed");
  }

  /** Waits by the world's clock. */
  wait(process: Process, milliseconds: number): Promise<void> {
    return new Promise((resolve) => this.at(this.now + milliseconds, process, resolve));
  }

  /** Lets another process do something, and waits for that; undefined when it is killed meanwhile. */
  async call<T>(from: Process, to: Process, work: () => Promise<T>): Promise<T | undefined> {
    const done = new Promise<T>((resolve) => {
      const back = (value: T) => this.at(this.now, from, () => resolve(value));
      this.at(this.now, to, () => work().then(back, (error) => this.fail(error)));
    });
    return Promise.race([done, to.over.then(() => undefined)]);
  }

  fail(error: unknown): void {
    this.#failure ??= error;
  }

  /** Lets everything happen. Throws the first failure. */
  async run(): Promise<void> {
    hostedBy({
      now: () => this.now + (this.#running?.ahead ?? 0),
      random: () => this.#running?.draw(2 ** 32) ?? 0,
      timer: (milliseconds, run) =>
        this.at(this.now + Math.max(1, Math.round(milliseconds)), this.#running, run),
      disk: this.disk,
      fetch: (url, given) => this.fetch(this.#running!, url, given),
    });
    try {
      for (let count = 0; ; count += 1) {
        const next = this.#ahead.pop();
        if (!next) break;
        must("all that happens comes to an end", count < mostHappenings, () => `at ${next.at}`);
        const { process, run, off } = next;
        if (off || (process && process.state === "killed")) continue;
        this.now = next.at;
        this.#running = process;
        run();
        if (process) await settled();
        if (this.#failure) throw this.#failure;
      }
      const waiting = this.#processes.filter(({ state }) => state === "running");
      must("nothing waits for ever", waiting.length === 0, () => waiting.map(({ name }) => name).join());
    } finally {
      hostedBy(undefined);
    }
  }
}

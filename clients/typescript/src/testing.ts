import { type Clock, systemClock } from "./core/clock.js";

/** The monotonic clock of the process, which a test can move forward. */
export class SteppedClock implements Clock {
  readonly #listeners = new Set<() => void>();
  #ahead = 0;

  /** Returns the time in milliseconds. */
  now(): number {
    return systemClock.now() + this.#ahead;
  }

  /** Moves the clock forward, as if the machine had slept for `ms` milliseconds. */
  advance(ms: number): void {
    if (!(ms >= 0)) throw new RangeError(`the clock moves by ${String(ms)} ms; expected 0 or more`);
    this.#ahead += ms;
    for (const listener of [...this.#listeners]) listener();
  }

  /** Registers a listener for jumps. */
  onJump(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}

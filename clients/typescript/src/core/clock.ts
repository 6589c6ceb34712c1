import os from "node:os";
import { performance } from "node:perf_hooks";

/** A monotonic clock in milliseconds. Its origin has no meaning. */
export interface Clock {
  /** Returns the time in milliseconds. It never decreases. */
  now(): number;

  /**
   * Registers a listener for jumps of the clock, such as those of a stepped clock in a test.
   * Returns a function that removes the listener.
   */
  onJump?(listener: () => void): () => void;
}

/** The times of a machine, in milliseconds. */
export interface MachineTimes {
  /** A monotonic clock that stops while the machine sleeps. */
  readonly monotonic: () => number;
  /** The wall clock. */
  readonly wall: () => number;
  /** Time since the start of the machine, sleep included, in steps of at most 1 s. */
  readonly uptime: () => number | undefined;
}

/** The uptime is read again after this time, or after a jump of the wall clock. */
const LOOK_MS = 250;
const WALL_JUMP_MS = 50;
/** Less growth of the uptime over the monotonic clock can come from the steps of the uptime. */
const NOTICED_MS = 1_000;

/**
 * A monotonic clock that also advances while the machine sleeps, for systems whose monotonic clock
 * stops then. It notices a sleep once the uptime shows more than 1 s of it, and then advances by up
 * to 1 s more than the sleep. Shorter sleeps add up.
 */
export class SleepAwareClock implements Clock {
  readonly #times: MachineTimes;
  /** Time by which the uptime was ahead of the monotonic clock before the next sleep. */
  #uptimeAhead: number;
  #wallAhead: number;
  #nextLook: number;
  #slept = 0;

  constructor(times: MachineTimes) {
    this.#times = times;
    const uptime = times.uptime() ?? Number.NaN;
    const now = times.monotonic();
    this.#uptimeAhead = uptime - now;
    this.#wallAhead = times.wall() - now;
    this.#nextLook = now + LOOK_MS;
  }

  now(): number {
    const now = this.#times.monotonic();
    const stepped = Math.abs(this.#times.wall() - now - this.#wallAhead) > WALL_JUMP_MS;
    if (stepped || now >= this.#nextLook) this.#look(now);
    return now + this.#slept;
  }

  /** Reads the uptime, and adds the sleep that it shows. */
  #look(started: number): void {
    const uptime = this.#times.uptime();
    const now = this.#times.monotonic();
    this.#wallAhead = this.#times.wall() - now;
    this.#nextLook = now + LOOK_MS;
    if (uptime === undefined) return;
    const growth = uptime - now - this.#uptimeAhead;
    if (growth > NOTICED_MS) {
      this.#slept += growth + NOTICED_MS;
      this.#uptimeAhead += growth;
    } else if (growth < -NOTICED_MS && now - started < NOTICED_MS) {
      // The uptime started again. A pause of the process between the two readings looks the same, so
      // the time between them is bounded.
      this.#uptimeAhead += growth;
    }
  }
}

/** Returns the uptime in milliseconds, or undefined if the system does not report it. */
function uptime(): number | undefined {
  try {
    return os.uptime() * 1_000;
  } catch {
    return undefined;
  }
}

const monotonic = (): number => performance.now();

/**
 * The monotonic clock of the process. The one of Linux needs the uptime; the one of macOS
 * advances while the machine sleeps. On other systems it may stop.
 */
export const systemClock: Clock =
  process.platform === "linux"
    ? new SleepAwareClock({ monotonic, wall: () => Date.now(), uptime })
    : { now: monotonic };

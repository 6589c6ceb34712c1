import type { Clock } from "./clock.js";

/** Timers stop while the machine sleeps: a longer one would run entries late after a sleep. */
const LONGEST_MS = 250;

/** An entry of a scheduler. */
export interface Entry {
  /** When to call `run`, on the clock of the scheduler. */
  due: number;
  /** Called once the time is due. */
  readonly run: () => void;
  /** Position in the heap; -1 while not scheduled. */
  index: number;
}

/**
 * Calls functions at times of a monotonic clock. All entries share one timer of the runtime, which
 * does not keep the process alive.
 */
export class Scheduler {
  readonly #clock: Clock;
  readonly #heap: Entry[] = [];
  readonly #unsubscribe: (() => void) | undefined;
  #timer: NodeJS.Timeout | undefined;
  #timerDue = Infinity;
  #closed = false;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#unsubscribe = clock.onJump?.(() => {
      this.#runDue();
    });
  }

  /** Number of scheduled entries. */
  get size(): number {
    return this.#heap.length;
  }

  /** Makes an entry that is not scheduled yet. */
  static entry(run: () => void): Entry {
    return { due: 0, run, index: -1 };
  }

  /** Schedules an entry, or moves it to another time. */
  schedule(entry: Entry, due: number): void {
    if (this.#closed) return;
    entry.due = due;
    if (entry.index < 0) {
      entry.index = this.#heap.length;
      this.#heap.push(entry);
    }
    this.#down(this.#up(entry.index));
    this.#arm();
  }

  /** Removes an entry; it may be scheduled again. */
  cancel(entry: Entry): void {
    const index = entry.index;
    if (index < 0) return;
    entry.index = -1;
    const last = this.#heap.pop();
    if (last === undefined || last === entry) return;
    this.#heap[index] = last;
    last.index = index;
    this.#down(this.#up(index));
  }

  /** Drops all entries. Nothing more can be scheduled. */
  close(): void {
    this.#closed = true;
    for (const entry of this.#heap) entry.index = -1;
    this.#heap.length = 0;
    clearTimeout(this.#timer);
    this.#unsubscribe?.();
  }

  /** Sets the timer to the first entry. An earlier timer stays: it sets the next one. */
  #arm(): void {
    const first = this.#heap[0];
    if (first === undefined || first.due >= this.#timerDue) return;
    clearTimeout(this.#timer);
    const now = this.#clock.now();
    this.#timerDue = Math.min(first.due, now + LONGEST_MS);
    const delay = Math.max(Math.ceil(this.#timerDue - now), 0);
    this.#timer = setTimeout(() => {
      this.#runDue();
    }, delay);
    this.#timer.unref();
  }

  #runDue(): void {
    clearTimeout(this.#timer);
    this.#timerDue = Infinity;
    const now = this.#clock.now();
    for (let first = this.#heap[0]; first !== undefined; first = this.#heap[0]) {
      if (first.due > now) break;
      this.cancel(first);
      first.run();
    }
    this.#arm();
  }

  #up(start: number): number {
    let index = start;
    while (index > 0) {
      const parent = (index - 1) >> 1;
      if (!this.#swapIfLess(index, parent)) break;
      index = parent;
    }
    return index;
  }

  #down(start: number): void {
    let index = start;
    for (;;) {
      const left = 2 * index + 1;
      const right = left + 1;
      const leftDue = this.#heap[left]?.due ?? Infinity;
      const child = (this.#heap[right]?.due ?? Infinity) < leftDue ? right : left;
      if (child >= this.#heap.length || !this.#swapIfLess(child, index)) return;
      index = child;
    }
  }

  /** Swaps two entries if the one at `index` is due before the one at `other`. */
  #swapIfLess(index: number, other: number): boolean {
    const one = this.#heap[index];
    const two = this.#heap[other];
    if (one === undefined || two === undefined || one.due >= two.due) return false;
    this.#heap[index] = two;
    this.#heap[other] = one;
    two.index = index;
    one.index = other;
    return true;
  }
}

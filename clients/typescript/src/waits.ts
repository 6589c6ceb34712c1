import { onAbort } from "./core/abort.js";
import type { Answer, Caller } from "./core/caller.js";
import { asTollgateError, cancelled, type TollgateError } from "./core/errors.js";
import type { CallOptions } from "./core/options.js";

/** Lengths of the calls of a wait, in milliseconds. */
interface Lengths {
  /** A waiting call is followed by the next one after this time. */
  readonly sliceMs: number;
  /** How long a waiting call overlaps the next one, so that the ticket stays. */
  readonly overlapMs: number;
}

const LENGTHS: Lengths = { sliceMs: 10_000, overlapMs: 5000 };
/** How long a cancelled wait still accepts an answer that is on its way, in milliseconds. */
const GRACE_MS = 500;
/** A lease whose waiting call took longer than this share of it is asked for again. */
const STALE = 0.05;

/** A wait: how to send its calls, and what their answers mean. */
export interface Wait<T> {
  /** Length of the wait in milliseconds. */
  readonly waitMs: number;
  /** Cancels the wait. */
  readonly signal: AbortSignal | undefined;
  /** Sends a call that waits. */
  readonly send: (waitMs: number, options: CallOptions) => Promise<Answer<T>>;
  /** Pause in milliseconds until the next call; undefined for the final answer. */
  readonly pauseMs: (message: T) => number | undefined;
  /** Called if the wait fails: resolves once all calls have ended, with a final answer if one arrives. */
  readonly onFailure: (ended: Promise<Answer<T> | undefined>) => void;
}

type Settled<T> = { readonly answer: Answer<T> } | { readonly error: TollgateError };
type Running<T> = Promise<{ readonly call: Running<T>; readonly settled: Settled<T> }>;

/**
 * Waits in calls of limited length. The next call starts before the previous one ends: both belong
 * to one waiter, whose ticket stays. Errors are retried until the wait ends.
 *
 * A cancelled wait fails immediately. Its calls are cancelled a moment later, because an answer that
 * is on its way says which lease the server has granted.
 */
export async function waiting<T>(caller: Caller, wait: Wait<T>, lengths = LENGTHS): Promise<Answer<T>> {
  const slices = new Slices(caller, wait, lengths, caller.clock.now() + wait.waitMs);
  try {
    const answer = await slices.run();
    slices.stop();
    return answer;
  } catch (error) {
    wait.onFailure(slices.ended());
    throw error;
  }
}

class Slices<T> {
  readonly #caller: Caller;
  readonly #wait: Wait<T>;
  readonly #lengths: Lengths;
  readonly #end: number;
  readonly #stop = new AbortController();
  #running: Running<T>[] = [];
  #failures = 0;

  constructor(caller: Caller, wait: Wait<T>, lengths: Lengths, end: number) {
    this.#caller = caller;
    this.#wait = wait;
    this.#lengths = lengths;
    this.#end = end;
  }

  async run(): Promise<Answer<T>> {
    const { sliceMs, overlapMs } = this.#lengths;
    for (;;) {
      const started = this.#caller.clock.now();
      const left = Math.max(this.#end - started, 0);
      const last = left <= sliceMs + overlapMs;
      this.#start(last ? left : sliceMs + overlapMs);
      const settled = await this.#result(last ? undefined : sliceMs);
      if (settled === undefined) continue;
      const pause = this.#pauseAfter(settled, started);
      if (pause !== undefined) await this.#caller.sleep(pause, this.#wait.signal);
      else if ("answer" in settled) return settled.answer;
      else throw settled.error;
    }
  }

  /** Cancels the running calls. */
  stop(): void {
    this.#stop.abort();
  }

  /** Cancels the running calls after a moment. Returns their final answer once all have ended. */
  async ended(): Promise<Answer<T> | undefined> {
    let answer: Answer<T> | undefined;
    const grace = setTimeout(() => {
      this.stop();
    }, GRACE_MS);
    while (this.#running.length > 0) {
      const { call, settled } = await Promise.race(this.#running);
      this.#running = this.#running.filter((running) => running !== call);
      if (!this.#isFinal(settled)) continue;
      answer ??= settled.answer;
      this.stop();
    }
    clearTimeout(grace);
    return answer;
  }

  #isFinal(settled: Settled<T>): settled is { readonly answer: Answer<T> } {
    return "answer" in settled && this.#wait.pauseMs(settled.answer.message) === undefined;
  }

  #start(waitMs: number): void {
    const options = { signal: this.#stop.signal, deadlineMs: waitMs + this.#caller.settings.deadlineMs };
    const call: Running<T> = this.#wait.send(waitMs, options).then(
      (answer) => ({ call, settled: { answer } }),
      (error: unknown) => ({ call, settled: { error: asTollgateError(error) } }),
    );
    this.#running.push(call);
  }

  /**
   * Returns the final answer, or the last result of all running calls; undefined after `ms`. Fails if
   * the wait is cancelled.
   */
  async #result(ms: number | undefined): Promise<Settled<T> | undefined> {
    const { signal } = this.#wait;
    let timer: NodeJS.Timeout | undefined;
    let release = (): void => undefined;
    const timeout = new Promise<undefined>((resolve) => {
      if (ms !== undefined) timer = setTimeout(resolve, ms, undefined);
      release = onAbort(signal, () => {
        resolve(undefined);
      });
    });
    try {
      for (;;) {
        const first = await Promise.race([...this.#running, timeout]);
        if (first === undefined && signal?.aborted === true) throw cancelled(signal);
        if (first === undefined) return undefined;
        this.#running = this.#running.filter((call) => call !== first.call);
        if (this.#isFinal(first.settled) || this.#running.length === 0) return first.settled;
      }
    } finally {
      release();
      clearTimeout(timer);
    }
  }

  /** Returns the pause before the next call; undefined if the result stands. */
  #pauseAfter(settled: Settled<T>, started: number): number | undefined {
    const now = this.#caller.clock.now();
    if (now >= this.#end) return undefined;
    if ("error" in settled) {
      if (!settled.error.retryable) return undefined;
      this.#failures += 1;
      return Math.min(this.#caller.pauseMs(this.#failures, settled.error), this.#end - now);
    }
    this.#failures = 0;
    const pause = this.#wait.pauseMs(settled.answer.message);
    if (pause === undefined) return undefined;
    // A call that has waited may be repeated immediately.
    return now - started >= this.#lengths.sliceMs ? 0 : Math.min(pause, this.#end - now);
  }
}

/**
 * Whether the time left of a lease is unknown, because the waiting call took so long that the lease
 * may have started well after its request was sent.
 */
export function isStale(caller: Caller, sentAt: number, expiresInMs: number): boolean {
  return caller.clock.now() - sentAt > expiresInMs * STALE;
}

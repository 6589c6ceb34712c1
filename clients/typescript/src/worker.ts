import type { AdmitOptions } from "./admission.js";
import type { Core } from "./connection.js";
import { asTollgateError, type TollgateError } from "./core/errors.js";
import type { CompleteVerdict, Outcome, Permit } from "./permit.js";
import type { Pool } from "./pool.js";

/** The result of a task. */
export type Result = Uint8Array | string | undefined;

/**
 * Runs a task. Its return value is the result; an error completes the task as FAILED.
 * @param signal aborted when the lease is lost: stop the work
 */
// A handler without a result may return nothing.
// eslint-disable-next-line @typescript-eslint/no-invalid-void-type
export type Handler = (permit: Permit, signal: AbortSignal) => Promise<Result | void> | Result | void;

/** Options of a worker. */
export interface WorkerOptions extends Pick<AdmitOptions, "leaseMs" | "waitMs"> {
  /** Mean pause without a queued task, in milliseconds. Default: 1,000. */
  readonly idleMs?: number;
  /** Called after each task. */
  readonly onDone?: (permit: Permit, verdict: CompleteVerdict) => void;
  /** Called with each error of a handler or of a call. The worker continues. */
  readonly onError?: (error: unknown) => void;
}

/** Codes of errors that no repeat changes: the worker ends with them. */
const FINAL = new Set(["INVALID_ARGUMENT", "PERMISSION_DENIED", "UNIMPLEMENTED", "CANCELLED"]);

/**
 * Runs the queued tasks of one device, one after the other: asks for the oldest task, runs it, renews
 * its lease, reports the result. Pauses after refusals and errors.
 */
export class Worker {
  readonly #core: Core;
  readonly #pool: Pool;
  readonly #device: string;
  readonly #handler: Handler;
  readonly #options: WorkerOptions;
  readonly #stop = new AbortController();
  #run: Promise<void> | undefined;
  #done = 0;
  #failures = 0;

  /** @internal */
  constructor(core: Core, pool: Pool, device: string, handler: Handler, options: WorkerOptions) {
    this.#core = core;
    this.#pool = pool;
    this.#device = device;
    this.#handler = handler;
    this.#options = options;
  }

  /** Number of completed tasks. */
  get done(): number {
    return this.#done;
  }

  /** Starts the worker. A second call has no effect. Errors are thrown by `stop` and `finished`. */
  start(): this {
    this.#run ??= this.#loop();
    // An error of a worker that nobody waits for must not end the process.
    this.#run.catch(() => undefined);
    return this;
  }

  /** Resolves when the worker has ended. Fails with the error that ended it. */
  async finished(): Promise<void> {
    await this.#run;
  }

  /** Accepts no further tasks, and waits for the running one to be completed. */
  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#run;
  }

  /** Stops the worker. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  async #loop(): Promise<void> {
    while (!this.#isStopped()) {
      try {
        const pause = await this.#next();
        this.#failures = 0;
        if (pause > 0) await this.#pause(pause * (0.75 + Math.random() * 0.5));
      } catch (thrown) {
        if (this.#isStopped()) return;
        await this.#failed(asTollgateError(thrown));
      }
    }
  }

  #isStopped(): boolean {
    return this.#stop.signal.aborted;
  }

  /** Runs the next task. Returns the pause after it, in milliseconds. */
  async #next(): Promise<number> {
    const { leaseMs, waitMs = 0, idleMs = 1000 } = this.#options;
    // A call that does not wait is short: its answer may be a task, which must run.
    const signal = waitMs > 0 ? this.#stop.signal : undefined;
    const admission = await this.#pool.poll(this.#device, { leaseMs, waitMs, signal });
    if (admission.outcome !== "ADMITTED") return admission.retryAfterMs ?? idleMs;
    await this.#work(admission.permit);
    return 0;
  }

  async #work(permit: Permit): Promise<void> {
    let outcome: Outcome = "SUCCEEDED";
    let result: Result;
    try {
      result = (await this.#handler(permit, permit.signal)) ?? undefined;
    } catch (error) {
      outcome = "FAILED";
      this.#options.onError?.(error);
    }
    try {
      const verdict = await permit.complete({ outcome, result });
      this.#done += 1;
      this.#options.onDone?.(permit, verdict);
    } finally {
      permit.close();
    }
  }

  async #failed(error: TollgateError): Promise<void> {
    this.#options.onError?.(error);
    if (FINAL.has(error.code)) throw error;
    this.#failures += 1;
    await this.#pause(this.#core.caller.pauseMs(this.#failures, error));
  }

  async #pause(ms: number): Promise<void> {
    try {
      await this.#core.caller.sleep(ms, this.#stop.signal);
    } catch (error) {
      if (!this.#isStopped()) throw error;
    }
  }
}

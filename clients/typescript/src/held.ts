import type { Core } from "./connection.js";
import { asTollgateError, TollgateError } from "./core/errors.js";
import type { CallOptions } from "./core/options.js";
import { type Entry, Scheduler } from "./core/scheduler.js";

/** When a lease was requested, and how long it was at the time of the decision. */
export interface Granted {
  /** The clock before the request was sent, in milliseconds. */
  readonly sentAt: number;
  /** The time left of the lease at the time of the decision, in milliseconds. */
  readonly expiresInMs: number;
}

/** Options of a renewal. */
export interface RenewOptions extends CallOptions {
  /** New length of the lease in milliseconds. Default: as granted. */
  readonly leaseMs?: number | undefined;
}

/** The fraction of a lease by which it ends earlier here than the server says. */
const MARGIN = 0.02;
const SHORTEST_MARGIN_MS = 10;
const LONGEST_MARGIN_MS = 1000;

/**
 * Right to use something until a lease ends: a permit or a lock. A keeper renews the lease after a
 * third of its length.
 *
 * The lease ends here before it ends at the server: its end is counted from the clock before the
 * request was sent, less a margin of 2 % (10 ms to 1 s).
 */
export abstract class Held {
  /** Number that is higher than those of all earlier leases of the pool or lock. */
  readonly token: bigint;
  /** True if an earlier call was granted this lease. */
  readonly replayed: boolean;

  readonly #core: Core;
  readonly #keeper: boolean;
  readonly #entry: Entry;
  #state: "HELD" | "LOST" | "ENDED" = "HELD";
  #suspended = false;
  #renewing = false;
  #failures = 0;
  #deadline = 0;
  #renewAt = Infinity;
  #controller: AbortController | undefined;

  /** @internal */
  constructor(core: Core, token: bigint, replayed: boolean, granted: Granted, keeper: boolean) {
    this.token = token;
    this.replayed = replayed;
    this.#core = core;
    this.#keeper = keeper;
    this.#entry = Scheduler.entry(() => {
      this.#tick();
    });
    this.#extend(granted);
    this.#schedule();
  }

  /** Whether the lease is running: it is neither lost nor given up. */
  get valid(): boolean {
    this.#check();
    return this.#state === "HELD";
  }

  /** Whether the lease ended or was revoked before it was given up. If so, stop the work. */
  get lost(): boolean {
    this.#check();
    return this.#state === "LOST";
  }

  /** The time left of the lease in milliseconds, minus the margin; 0 unless it is valid. */
  get validForMs(): number {
    return this.valid ? Math.max(this.#deadline - this.#core.caller.clock.now(), 0) : 0;
  }

  /**
   * Aborted once the lease is lost. Its reason is a `TollgateError` with code ABORTED and reason
   * LEASE_LOST.
   */
  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    this.#check();
    if (this.#state === "LOST") this.#abort();
    return this.#controller.signal;
  }

  /** Stops the keeper. The lease runs to its end, unless it was completed or released. */
  protected end(): void {
    this.#core.scheduler.cancel(this.#entry);
    if (this.#state === "HELD") this.#state = "ENDED";
  }

  /**
   * Stops the keeper, and makes the call that gives the lease up: in the background after one
   * deadline, until the lease ends.
   */
  protected async leave(identity: readonly string[], call: () => Promise<unknown>): Promise<void> {
    this.end();
    await this.#core.claims.leave(identity, this.#deadline, call);
  }

  /** Asks once for more time. Returns the new lease, or why there is none. */
  protected abstract requestRenewal(options: RenewOptions): Promise<Granted | string>;

  /**
   * Renews the lease now. A lease without a keeper needs it.
   * @returns undefined if the lease was renewed, else the refusal
   */
  protected async renewOnce(options: RenewOptions): Promise<string | undefined> {
    const answer = await this.requestRenewal(options);
    if (typeof answer === "string") {
      this.#lose();
      return answer;
    }
    if (this.#state === "HELD") {
      this.#extend(answer);
      this.#schedule();
    }
    return undefined;
  }

  /**
   * Runs the call that gives the lease up. Renewals pause, and resume if the call fails. The lease
   * may end meanwhile, and is then lost.
   */
  protected async giveUp<T>(call: () => Promise<T>): Promise<T> {
    this.#suspended = true;
    this.#schedule();
    try {
      const answer = await call();
      this.end();
      return answer;
    } finally {
      this.#suspended = false;
      this.#schedule();
    }
  }

  #extend({ sentAt, expiresInMs }: Granted): void {
    const margin = Math.min(Math.max(expiresInMs * MARGIN, SHORTEST_MARGIN_MS), LONGEST_MARGIN_MS);
    this.#deadline = sentAt + expiresInMs - margin;
    const third = expiresInMs / 3;
    this.#renewAt = this.#keeper ? sentAt + third * (0.8 + Math.random() * 0.2) : Infinity;
    this.#failures = 0;
  }

  #schedule(): void {
    if (this.#state !== "HELD") return;
    const waits = this.#renewing || this.#suspended;
    const due = waits ? this.#deadline : Math.min(this.#deadline, this.#renewAt);
    this.#core.scheduler.schedule(this.#entry, due);
  }

  #tick(): void {
    this.#check();
    if (this.#state !== "HELD") return;
    if (!this.#renewing && !this.#suspended && this.#core.caller.clock.now() >= this.#renewAt)
      void this.#renew();
    this.#schedule();
  }

  /** Renews the lease once. An error leads to a retry until the lease ends. */
  async #renew(): Promise<void> {
    const { caller } = this.#core;
    this.#renewing = true;
    const rest = Math.max(this.#deadline - caller.clock.now(), 1);
    try {
      const answer = await this.requestRenewal({ deadlineMs: Math.min(caller.settings.deadlineMs, rest) });
      if (typeof answer !== "string") this.#extend(answer);
      else if (!this.#suspended) this.#lose();
    } catch (thrown) {
      this.#failures += 1;
      const pause = caller.pauseMs(this.#failures, asTollgateError(thrown));
      this.#renewAt = caller.clock.now() + pause;
    } finally {
      this.#renewing = false;
      this.#schedule();
    }
  }

  /** Timers fire late after the machine has slept, so each use compares the clock. */
  #check(): void {
    if (this.#core.caller.clock.now() >= this.#deadline) this.#lose();
  }

  #lose(): void {
    if (this.#state !== "HELD") return;
    this.#state = "LOST";
    this.#core.scheduler.cancel(this.#entry);
    if (this.#controller !== undefined) this.#abort();
  }

  #abort(): void {
    const message = "The lease is lost: it has ended or was taken away.";
    this.#controller?.abort(new TollgateError({ code: "ABORTED", reason: "LEASE_LOST", message }));
  }
}

import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import type { AdmitOptions } from "./admission.js";
import type { Grant } from "./claims.js";
import type { Core } from "./connection.js";
import type { Answer } from "./core/caller.js";
import { milliseconds, nameOf, type NameOf, optionalDuration } from "./core/convert.js";
import { unknownAnswer } from "./core/errors.js";
import type { CallOptions } from "./core/options.js";
import {
  AcquireLockOutcome,
  type AcquireLockResponse,
  LockService,
  ReleaseLockOutcome as ReleaseLockOutcomeNumber,
  RenewLockOutcome,
} from "./gen/tollgate/v1/lock_pb.js";
import { type Granted, Held, type RenewOptions } from "./held.js";
import { granted } from "./permit.js";
import { isStale, waiting } from "./waits.js";

/** Length of a lease by default, in milliseconds. */
const LEASE_MS = 30_000;

/** Whether a lock was released. */
export type ReleaseOutcome = NameOf<typeof ReleaseLockOutcomeNumber>;

/** Options of a call for a lock. The lease is 1 ms to 30 days long; default: 30 s. */
export interface AcquireOptions extends AdmitOptions {
  /**
   * The holder: unique among the competitors, 1 to 256 bytes. Two calls with one owner share a
   * lease. Default: a new one for each call, from host, process and a random id.
   */
  readonly owner?: string | undefined;
}

/** The owner holds the lock. */
export interface Acquired {
  readonly outcome: "ACQUIRED";
  readonly lock: Lock;
}

/** Another owner holds the lock. */
export interface HeldByOther {
  readonly outcome: "HELD";
  /** The holder; empty if the lock is free for the next waiter. */
  readonly holder: string;
  /** When the lease of the holder ends, in milliseconds from now. */
  readonly retryAfterMs: number;
}

/** The answer to a call for a lock. */
export type Acquisition = Acquired | HeldByOther;

/** A lock as it is now. */
export interface LockStatus {
  readonly held: boolean;
  /** The owner that holds it; undefined if it is free. */
  readonly owner: string | undefined;
  readonly token: bigint | undefined;
  /** Number of waiting calls. */
  readonly waiters: number;
}

/** Locks: one owner at a time. */
export class Locks {
  readonly #core: Core;

  /** @internal */
  constructor(core: Core) {
    this.#core = core;
  }

  /**
   * Acquires a lock, and waits up to `waitMs` for it. A call that fails releases a lock that it may
   * have acquired. With `owner` it does so only for a cancelled wait whose answer still arrives.
   */
  async acquire(name: string, options: AcquireOptions = {}): Promise<Acquisition> {
    const owner = options.owner ?? `${hostname()}/${String(process.pid)}/${randomUUID()}`;
    const claim = await this.#core.claims.enter("lock", name, owner);
    let ended = Promise.resolve<Answer<AcquireLockResponse> | undefined>(undefined);
    try {
      const answer = await this.#acquire(name, owner, options, (end) => {
        ended = end;
      });
      const acquisition = this.#read(name, owner, options, answer);
      claim.answered(answer.message.lease?.fencingToken);
      return acquisition;
    } catch (error) {
      void claim.withdraw(
        ended.then((answer) => this.#grant(answer, options)),
        ({ token }) => this.#release({ name, owner, fencingToken: token }),
      );
      throw error;
    }
  }

  /** Returns the lease in the last answer of a failed call. Nobody else has a default owner's lease. */
  #grant(answer: Answer<AcquireLockResponse> | undefined, options: AcquireOptions): Grant | undefined {
    const now = this.#core.caller.clock.now();
    const lease = answer?.message.lease;
    if (options.owner === undefined) {
      return { token: lease?.fencingToken, replayed: false, until: now + (options.leaseMs ?? LEASE_MS) };
    }
    if (answer === undefined || lease === undefined) return undefined;
    const { replayed } = answer.message;
    return { token: lease.fencingToken, replayed, until: now + milliseconds(lease.expiresIn) };
  }

  /** Returns the holder of a lock and the number of waiting calls. */
  async status(name: string, options: CallOptions = {}): Promise<LockStatus> {
    const { message } = await this.#core.caller.call(LockService.method.getLock, { name }, options);
    const { held, lease, waiters } = message;
    return { held, owner: lease?.owner, token: lease?.fencingToken, waiters };
  }

  async #acquire(
    name: string,
    owner: string,
    options: AcquireOptions,
    onFailure: (ended: Promise<Answer<AcquireLockResponse> | undefined>) => void,
  ): Promise<Answer<AcquireLockResponse>> {
    const { caller } = this.#core;
    const request = { name, owner, leaseDuration: optionalDuration(options.leaseMs) };
    const method = LockService.method.acquireLock;
    const { waitMs = 0 } = options;
    if (!(waitMs > 0)) return caller.call(method, request, options);
    const answer = await waiting(caller, {
      waitMs,
      signal: options.signal,
      send: (maxWaitMs, call) =>
        caller.wait(method, { ...request, maxWait: optionalDuration(maxWaitMs) }, call),
      pauseMs: ({ outcome, retryAfter }) =>
        outcome === AcquireLockOutcome.HELD ? milliseconds(retryAfter) : undefined,
      onFailure,
    });
    onFailure(Promise.resolve(answer));
    const { lease, replayed } = answer.message;
    if (lease === undefined || !isStale(caller, answer.sentAt, milliseconds(lease.expiresIn))) return answer;
    const repeat = await caller.call(method, request, options);
    if (repeat.message.lease?.fencingToken !== lease.fencingToken) return repeat;
    return { ...repeat, message: { ...repeat.message, replayed } };
  }

  #read(
    name: string,
    owner: string,
    options: AcquireOptions,
    answer: Answer<AcquireLockResponse>,
  ): Acquisition {
    const { outcome, lease, holder, retryAfter, replayed } = answer.message;
    if (outcome === AcquireLockOutcome.HELD) {
      return { outcome: "HELD", holder, retryAfterMs: milliseconds(retryAfter) };
    }
    if (outcome !== AcquireLockOutcome.ACQUIRED || lease === undefined) {
      throw unknownAnswer("AcquireLockOutcome", outcome);
    }
    const { leaseMs, keeper = true } = options;
    const facts = { name, owner, token: lease.fencingToken, replayed, keeper, leaseMs };
    return { outcome: "ACQUIRED", lock: new Lock(this.#core, facts, granted(lease, answer.sentAt)) };
  }

  async #release(request: { name: string; owner: string; fencingToken: bigint | undefined }): Promise<void> {
    await this.#core.caller.once(LockService.method.releaseLock, request);
  }
}

interface LockFacts {
  readonly name: string;
  readonly owner: string;
  readonly token: bigint;
  readonly replayed: boolean;
  readonly keeper: boolean;
  readonly leaseMs: number | undefined;
}

/**
 * A lock that is held. Leave it with `await using`, or call {@link Lock.close} in a `finally`.
 *
 * A holder that stalls may continue after its lease. Send `token` with each write, and let the
 * protected storage reject a token below the highest one that it has seen.
 */
export class Lock extends Held {
  /** The lock. */
  readonly name: string;
  /** The owner that holds it. */
  readonly owner: string;
  readonly #core: Core;
  readonly #leaseMs: number | undefined;
  #released = false;

  /** @internal */
  constructor(core: Core, facts: LockFacts, grant: Granted) {
    super(core, facts.token, facts.replayed, grant, facts.keeper);
    this.#core = core;
    this.name = facts.name;
    this.owner = facts.owner;
    this.#leaseMs = facts.leaseMs;
  }

  /** Releases the lock. NOT_HELD: the lease had ended. */
  async release(options: CallOptions = {}): Promise<ReleaseOutcome> {
    return this.giveUp(async () => {
      const { message } = await this.#core.caller.call(
        LockService.method.releaseLock,
        this.#request(),
        options,
      );
      this.#released = true;
      return nameOf(ReleaseLockOutcomeNumber, message.outcome);
    });
  }

  /**
   * Renews the lease now, once. A lock with a keeper does not need it. NOT_HELD means that the lock
   * is lost.
   */
  async renew(options: RenewOptions = {}): Promise<"RENEWED" | "NOT_HELD"> {
    return (await this.renewOnce(options)) === undefined ? "RENEWED" : "NOT_HELD";
  }

  /** Runs `body` in the scope of the lock, which is released in any case. */
  async use<T>(body: (lock: this) => T | Promise<T>): Promise<T> {
    try {
      return await body(this);
    } finally {
      await this.close();
    }
  }

  /**
   * Stops the keeper and releases the lock. Takes at most the deadline of one call: without an answer
   * the release continues in the background until the lease ends.
   */
  async close(): Promise<void> {
    if (this.#released) return;
    this.#released = true;
    await this.leave(["lock", this.name, this.owner], () =>
      this.#core.caller.once(LockService.method.releaseLock, this.#request()),
    );
  }

  /** Closes the lock. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  protected async requestRenewal(options: RenewOptions): Promise<Granted | string> {
    const { leaseMs = this.#leaseMs, ...call } = options;
    const request = { ...this.#request(), leaseDuration: optionalDuration(leaseMs) };
    const { message, sentAt } = await this.#core.caller.once(LockService.method.renewLock, request, call);
    if (message.outcome === RenewLockOutcome.RENEWED) return granted(message.lease, sentAt);
    return nameOf(RenewLockOutcome, message.outcome);
  }

  #request(): { name: string; owner: string; fencingToken: bigint } {
    return { name: this.name, owner: this.owner, fencingToken: this.token };
  }
}

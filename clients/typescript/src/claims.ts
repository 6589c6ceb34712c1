import type { Caller } from "./core/caller.js";
import { asTollgateError } from "./core/errors.js";

/** Maximum number of attempts to give up a lease, and the maximum pause between two of them. */
const TRIES = 20;
const LONGEST_PAUSE_MS = 30_000;

/** A granted lease, as a cancelled call learns about it. */
export interface Grant {
  /** The token; undefined for the unknown one of a call whose identity no other call has. */
  readonly token: bigint | undefined;
  /** Whether an earlier call was granted it. */
  readonly replayed: boolean;
  /** End of the lease on the clock of the connection. */
  readonly until: number;
}

/** A lease that is being given up. */
interface Ending {
  /** Makes the last attempt immediately. */
  readonly stop: AbortController;
  readonly done: Promise<void>;
}

/** The calls for one lease. */
interface Entry {
  /** Number of calls whose caller is waiting for the answer. */
  calls: number;
  /** Number of cancelled calls that have not ended. */
  cancelled: number;
  /** Tokens that calls were granted, and tokens that callers have received. */
  readonly granted: Set<bigint | undefined>;
  readonly given: Set<bigint | undefined>;
  ending: Ending | undefined;
}

/**
 * The calls for leases that one connection makes, by the identity of the lease. All calls with the
 * same identity get the same lease, so a lease is given up only if no other call has received it or
 * may receive it.
 */
export class Claims {
  readonly #caller: Caller;
  readonly #entries = new Map<string, Entry>();

  constructor(caller: Caller) {
    this.#caller = caller;
  }

  /** Registers a call. If the lease is being given up, first makes a last attempt to do so. */
  async enter(...identity: readonly string[]): Promise<Claim> {
    const key = identity.join("\0");
    await this.#settled(key);
    const entry = this.#entry(key);
    entry.calls += 1;
    return new Claim(this, key, entry);
  }

  /** Makes a last attempt to give up a lease, if it is being given up. */
  async settled(...identity: readonly string[]): Promise<void> {
    await this.#settled(identity.join("\0"));
  }

  /**
   * Gives up a lease when its scope is left. Returns once the call is answered, or after the
   * deadline of one call; further attempts then follow in the background until the lease ends.
   */
  async leave(identity: readonly string[], until: number, call: () => Promise<unknown>): Promise<void> {
    const key = identity.join("\0");
    let timer: NodeJS.Timeout | undefined;
    const deadline = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, this.#caller.settings.deadlineMs);
    });
    await Promise.race([deadline, this.end(key, this.#entry(key), until, call)]);
    clearTimeout(timer);
  }

  /** @internal Makes the call that gives a lease up, until it is answered or the lease ends. */
  async end(key: string, entry: Entry, until: number, call: () => Promise<unknown>): Promise<void> {
    const stop = new AbortController();
    const ending = { stop, done: this.#attempts(until, call, stop.signal) };
    entry.ending = ending;
    await ending.done;
    if (entry.ending === ending) entry.ending = undefined;
    this.tidy(key, entry);
  }

  /** @internal Forgets the calls for a lease if none is left. */
  tidy(key: string, entry: Entry): void {
    if (entry.calls + entry.cancelled > 0 || entry.ending !== undefined) return;
    if (this.#entries.get(key) === entry) this.#entries.delete(key);
  }

  async #settled(key: string): Promise<void> {
    for (let ending = this.#entries.get(key)?.ending; ending; ending = this.#entries.get(key)?.ending) {
      ending.stop.abort();
      await ending.done;
    }
  }

  #entry(key: string): Entry {
    const found = this.#entries.get(key);
    if (found !== undefined) return found;
    const entry: Entry = {
      calls: 0,
      cancelled: 0,
      granted: new Set(),
      given: new Set(),
      ending: undefined,
    };
    this.#entries.set(key, entry);
    return entry;
  }

  /** Makes a call until it is answered. Without an answer, the lease ends by itself. */
  async #attempts(until: number, call: () => Promise<unknown>, stop: AbortSignal): Promise<void> {
    const caller = this.#caller;
    for (let attempt = 1; attempt <= TRIES; attempt += 1) {
      try {
        await call();
        return;
      } catch (thrown) {
        const error = asTollgateError(thrown);
        const bound = Math.min(caller.settings.retry.firstPauseMs * 2 ** attempt, LONGEST_PAUSE_MS);
        const pause = (error.retryAfterMs ?? 0) + bound * (0.5 + Math.random() / 2);
        const isLast = stop.aborted || caller.clock.now() + pause >= until;
        if (isLast || !error.retryable || caller.closed) return;
        await caller.idle(pause, stop);
      }
    }
  }
}

/** One call for a lease. */
export class Claim {
  readonly #claims: Claims;
  readonly #key: string;
  readonly #entry: Entry;

  /** @internal */
  constructor(claims: Claims, key: string, entry: Entry) {
    this.#claims = claims;
    this.#key = key;
    this.#entry = entry;
  }

  /** The caller has received the answer, with the token of a lease if there is one. */
  answered(token?: bigint): void {
    if (token !== undefined) this.#entry.given.add(token);
    this.#entry.calls -= 1;
    this.#claims.tidy(this.#key, this.#entry);
  }

  /**
   * The caller gets no answer. Once the call has ended, its lease is given up, unless another call
   * has received it or may receive it.
   */
  async withdraw<G extends Grant>(
    ended: Promise<G | undefined>,
    giveUp: (grant: G) => Promise<unknown>,
  ): Promise<void> {
    const entry = this.#entry;
    entry.calls -= 1;
    entry.cancelled += 1;
    const grant = await ended;
    entry.cancelled -= 1;
    if (grant?.replayed === false) entry.granted.add(grant.token);
    if (
      grant !== undefined &&
      entry.granted.has(grant.token) &&
      entry.calls === 0 &&
      !entry.given.has(grant.token)
    ) {
      await this.#claims.end(this.#key, entry, grant.until, () => giveUp(grant));
    }
    this.#claims.tidy(this.#key, entry);
  }
}

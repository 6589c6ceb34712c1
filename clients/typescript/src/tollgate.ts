import type { Admission } from "./admission.js";
import {
  admitMany,
  type AdmitItem,
  completeMany,
  type CompleteItem,
  type CompleteResult,
  type Failed,
  renewMany,
  type RenewItem,
  type RenewResult,
} from "./bulk.js";
import { type Core, openCore } from "./connection.js";
import type { CallOptions, ConnectOptions } from "./core/options.js";
import { AdmissionService } from "./gen/tollgate/v1/admission_pb.js";
import { Locks } from "./locks.js";
import { Pool, type PoolStatus, readPool } from "./pool.js";
import { Rates } from "./rates.js";
import { Sequences } from "./sequences.js";
import { Stock } from "./stock.js";

/**
 * The connection to one or more servers. Share one in the process. It connects with the first call,
 * and again when a connection is lost. Several servers share the calls. A server that is
 * unreachable or not serving is skipped.
 */
export class Tollgate {
  /** Rate limits and bans. */
  readonly rates: Rates;
  /** Serial numbers. */
  readonly sequences: Sequences;
  /** Locks. */
  readonly locks: Locks;
  /** Stock and reservations. */
  readonly stock: Stock;
  readonly #core: Core & { readonly close: () => void };

  /**
   * @param addresses one address, such as `localhost:50051`, or several
   * @throws TypeError or RangeError if an option is invalid; TollgateError with INVALID_ARGUMENT if
   *   no header can carry the token or the namespace
   */
  constructor(addresses: string | readonly string[], options: ConnectOptions = {}) {
    this.#core = openCore(typeof addresses === "string" ? [addresses] : addresses, options);
    this.rates = new Rates(this.#core);
    this.sequences = new Sequences(this.#core);
    this.locks = new Locks(this.#core);
    this.stock = new Stock(this.#core);
  }

  /** Number of requests that were sent, retries and renewals included. */
  get requestsSent(): number {
    return this.#core.caller.sent;
  }

  /** Returns a pool. Sends nothing. */
  pool(name: string): Pool {
    return new Pool(this.#core, name);
  }

  /** Lists the pools that hold leases or run-time settings. */
  async *pools(options: CallOptions = {}): AsyncGenerator<PoolStatus, void, undefined> {
    let pageToken = "";
    do {
      const request = { pageSize: 1000, pageToken };
      const { message } = await this.#core.caller.call(AdmissionService.method.listPools, request, options);
      for (const pool of message.pools) yield readPool(pool);
      pageToken = message.nextPageToken;
    } while (pageToken !== "");
  }

  /**
   * Asks for slots for any number of tasks, 1,000 per call. Each task is decided separately; tasks
   * of one pool are decided in order.
   * @returns one answer for each item, in their order
   * @throws TollgateError if no item could be decided
   */
  async admitMany(items: readonly AdmitItem[], options: CallOptions = {}): Promise<(Admission | Failed)[]> {
    return admitMany(this.#core, items, options);
  }

  /** Reports results of any number of tasks, 1,000 in a call. See {@link Tollgate.admitMany}. */
  async completeMany(items: readonly CompleteItem[], options: CallOptions = {}): Promise<CompleteResult[]> {
    return completeMany(this.#core, items, options);
  }

  /** Renews any number of leases, 1,000 in a call. See {@link Tollgate.admitMany}. */
  async renewMany(items: readonly RenewItem[], options: CallOptions = {}): Promise<RenewResult[]> {
    return renewMany(this.#core, items, options);
  }

  /**
   * Closes the connection. Pending calls fail with CANCELLED. Leases are no longer renewed, and run
   * to their ends; complete the permits before.
   */
  close(): void {
    this.#core.close();
  }

  /** Closes the connection. */
  [Symbol.dispose](): void {
    this.close();
  }

  /** Closes the connection. */
  [Symbol.asyncDispose](): Promise<void> {
    this.close();
    return Promise.resolve();
  }
}

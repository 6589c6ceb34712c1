import type { Clock } from "./core/clock.js";
import type { CallOptions } from "./core/options.js";
import type { CancelOutcome, ConfirmAnswer, Stock } from "./stock.js";

/** Details of a reservation. */
export interface ReservationFacts {
  readonly sku: string;
  readonly order: string;
  readonly quantity: bigint;
  readonly replayed: boolean;
  /** End of the hold on the clock of the connection. */
  readonly endsAt: number;
}

/**
 * A quantity that is held for an order. Confirm it once it is paid. Leaving it with `await using`,
 * or calling {@link Reservation.close}, cancels it unless it was confirmed.
 */
export class Reservation {
  readonly sku: string;
  readonly order: string;
  /** The reserved quantity; of a replayed reservation, that of the first call. */
  readonly quantity: bigint;
  /** True if an earlier call made the reservation. */
  readonly replayed: boolean;
  readonly #stock: Stock;
  readonly #clock: Clock;
  readonly #endsAt: number;
  #settled = false;

  /** @internal */
  constructor(stock: Stock, clock: Clock, facts: ReservationFacts) {
    this.#stock = stock;
    this.#clock = clock;
    this.sku = facts.sku;
    this.order = facts.order;
    this.quantity = facts.quantity;
    this.replayed = facts.replayed;
    this.#endsAt = facts.endsAt;
  }

  /**
   * Time left of the hold in milliseconds, counted from before the request; 0 once it has lapsed.
   */
  get validForMs(): number {
    return Math.max(this.#endsAt - this.#clock.now(), 0);
  }

  /**
   * Sells the quantity to the order. A late payment takes the quantity again if it is available
   * (`retaken`), else the outcome is EXPIRED.
   */
  async confirm(options: CallOptions = {}): Promise<ConfirmAnswer> {
    const answer = await this.#stock.confirm(this.sku, this.order, options);
    this.#settled = true;
    return answer;
  }

  /** Makes the quantity available again. */
  async cancel(options: CallOptions = {}): Promise<CancelOutcome> {
    const outcome = await this.#stock.cancel(this.sku, this.order, options);
    this.#settled = true;
    return outcome;
  }

  /** Runs `body` in the scope of the reservation, which is cancelled afterwards unless confirmed. */
  async use<T>(body: (reservation: this) => T | Promise<T>): Promise<T> {
    try {
      return await body(this);
    } finally {
      await this.close();
    }
  }

  /**
   * Cancels the reservation unless it was confirmed. Takes at most the deadline of one call: without
   * an answer the cancellation continues in the background until the hold ends.
   */
  async close(): Promise<void> {
    if (this.#settled) return;
    this.#settled = true;
    await this.#stock.leave(this.sku, this.order, this.#endsAt);
  }

  /** Closes the reservation. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

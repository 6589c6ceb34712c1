import { create } from "@bufbuild/protobuf";
import type { Core } from "./connection.js";
import { milliseconds, nameOf, type NameOf, optionalDuration } from "./core/convert.js";
import { requestIdOf } from "./core/identity.js";
import { QuantityDiffersError, unknownAnswer } from "./core/errors.js";
import type { CallOptions } from "./core/options.js";
import {
  CancelOutcome as CancelOutcomeNumber,
  ConfirmOutcome as ConfirmOutcomeNumber,
  ReservationState as ReservationStateNumber,
  ReserveOutcome,
  type ReserveStockResponse,
  type Stock as StockMessage,
  StockSchema,
  StockService,
} from "./gen/tollgate/v1/stock_pb.js";
import { Reservation } from "./reservation.js";

/** Whether a quantity was sold. */
export type ConfirmOutcome = NameOf<typeof ConfirmOutcomeNumber>;
/** Whether a quantity is available again. */
export type CancelOutcome = NameOf<typeof CancelOutcomeNumber>;
/** State of a reservation. */
export type ReservationState = NameOf<typeof ReservationStateNumber>;

/** The quantities of a sku. */
export interface StockLevel {
  /** Quantity on hand: available + reserved. */
  readonly onHand: bigint;
  readonly available: bigint;
  /** Quantity held for orders. */
  readonly reserved: bigint;
  /** Quantity confirmed since the sku was created. */
  readonly sold: bigint;
}

/** The quantities of a sku, and its reservations. */
export interface StockStatus extends StockLevel {
  /** Number of reservations that are held. */
  readonly holds: bigint;
}

/** Options of a reservation. */
export interface ReserveOptions extends CallOptions {
  /** Length of the hold in milliseconds, 1 ms to 30 days. Default: 15 minutes. */
  readonly holdMs?: number | undefined;
  /** The buyer, whose reservations and purchases count for `buyerLimit`. Default: none. */
  readonly buyer?: string | undefined;
  /** Maximum that the buyer may have reserved and bought of this sku; needs `buyer`. */
  readonly buyerLimit?: bigint | number | undefined;
}

/** The answer to a reservation. */
export type ReserveAnswer =
  /** The quantity is held for the order. */
  | { readonly outcome: "RESERVED"; readonly reservation: Reservation; readonly stock: StockLevel }
  /** Fewer are available. `retryAfterMs` is the time until the next hold ends, if that can help. */
  | { readonly outcome: "SHORT"; readonly retryAfterMs: number | undefined; readonly stock: StockLevel }
  /** The buyer would have more than `buyerLimit`. */
  | { readonly outcome: "BUYER_LIMIT"; readonly buyerQuantity: bigint; readonly stock: StockLevel }
  /** The reservation of the order was confirmed or cancelled. */
  | { readonly outcome: "ALREADY_SETTLED"; readonly state: ReservationState; readonly stock: StockLevel };

/** The answer to a confirmation. */
export interface ConfirmAnswer {
  /**
   * CONFIRMED: the quantity is sold. ALREADY_CONFIRMED: by an earlier call. EXPIRED: the hold has
   * lapsed, and the quantity is no longer available.
   */
  readonly outcome: ConfirmOutcome;
  /** On CONFIRMED: whether the hold had lapsed, and the quantity was taken again. */
  readonly retaken: boolean;
  readonly stock: StockLevel;
}

/** Stock: sells no more than is on hand. */
export class Stock {
  readonly #core: Core;

  /** @internal */
  constructor(core: Core) {
    this.#core = core;
  }

  /**
   * Sets the quantity of a sku on hand, 0 to 2^53-1, reserved quantities included. Creates the sku.
   * It is never retried: a repeat would put quantities on hand that were sold since. After
   * UNAVAILABLE or DEADLINE_EXCEEDED, check with `get` before a repeat.
   */
  async set(sku: string, onHand: bigint | number, options: CallOptions = {}): Promise<StockLevel> {
    const request = { sku, onHand: BigInt(onHand) };
    const { message } = await this.#core.caller.once(StockService.method.setStock, request, options);
    return readLevel(message.stock);
  }

  /**
   * Adds to the quantity on hand, or subtracts from it. Retries add only once, because they carry
   * `requestId`.
   * @param options.requestId a repeat within 5 minutes adds nothing. Default, or empty: a random one
   */
  async add(
    sku: string,
    delta: bigint | number,
    options: CallOptions & { readonly requestId?: string | undefined } = {},
  ): Promise<{ stock: StockLevel; replayed: boolean }> {
    const request = { sku, delta: BigInt(delta), requestId: requestIdOf(options.requestId) };
    const { message } = await this.#core.caller.call(StockService.method.addStock, request, options);
    return { stock: readLevel(message.stock), replayed: message.replayed };
  }

  /**
   * Returns the quantities of a sku and the number of its held reservations. Fails with NOT_FOUND if
   * it was never set.
   */
  async get(sku: string, options: CallOptions = {}): Promise<StockStatus> {
    const { message } = await this.#core.caller.call(StockService.method.getStock, { sku }, options);
    return { ...readLevel(message.stock), holds: message.holds };
  }

  /**
   * Reserves a quantity for an order until its hold ends. A repeat while the hold runs returns the
   * first reservation. Rejects with {@link QuantityDiffersError} if the order holds another quantity.
   * @param quantity 1 to 1,000,000,000
   */
  async reserve(
    sku: string,
    order: string,
    quantity: bigint | number,
    options: ReserveOptions = {},
  ): Promise<ReserveAnswer> {
    const { holdMs, buyer = "", buyerLimit } = options;
    const request = {
      sku,
      orderId: order,
      quantity: BigInt(quantity),
      holdDuration: optionalDuration(holdMs),
      buyerId: buyer,
      buyerLimit: buyerLimit === undefined ? undefined : BigInt(buyerLimit),
    };
    await this.#core.claims.settled("order", sku, order);
    const { message, sentAt } = await this.#core.caller.call(
      StockService.method.reserveStock,
      request,
      options,
    );
    return this.#read(sku, order, message, sentAt);
  }

  /** Confirms a paid reservation: its quantity is sold. After the hold it takes the quantity again. */
  async confirm(sku: string, order: string, options: CallOptions = {}): Promise<ConfirmAnswer> {
    const request = { sku, orderId: order };
    const { message } = await this.#core.caller.call(
      StockService.method.confirmReservation,
      request,
      options,
    );
    const outcome = nameOf(ConfirmOutcomeNumber, message.outcome);
    return { outcome, retaken: message.retaken, stock: readLevel(message.stock) };
  }

  /** Cancels a reservation: its quantity is available again. */
  async cancel(sku: string, order: string, options: CallOptions = {}): Promise<CancelOutcome> {
    const request = { sku, orderId: order };
    const { message } = await this.#core.caller.call(StockService.method.cancelReservation, request, options);
    return nameOf(CancelOutcomeNumber, message.outcome);
  }

  /** @internal Cancels a reservation whose scope is left. */
  async leave(sku: string, order: string, until: number): Promise<void> {
    const request = { sku, orderId: order };
    await this.#core.claims.leave(["order", sku, order], until, () =>
      this.#core.caller.once(StockService.method.cancelReservation, request),
    );
  }

  #read(sku: string, order: string, message: ReserveStockResponse, sentAt: number): ReserveAnswer {
    const stock = readLevel(message.stock);
    const outcome = nameOf(ReserveOutcome, message.outcome);
    const { reservation } = message;
    switch (outcome) {
      case "RESERVED": {
        const quantity = reservation?.quantity ?? 0n;
        const endsAt = sentAt + milliseconds(reservation?.expiresIn);
        const facts = { sku, order, quantity, replayed: message.replayed, endsAt };
        return { outcome, reservation: new Reservation(this, this.#core.caller.clock, facts), stock };
      }
      case "SHORT": {
        const { retryAfter } = message;
        return {
          outcome,
          retryAfterMs: retryAfter === undefined ? undefined : milliseconds(retryAfter),
          stock,
        };
      }
      case "BUYER_LIMIT":
        return { outcome, buyerQuantity: message.buyerQuantity, stock };
      case "QUANTITY_DIFFERS":
        throw new QuantityDiffersError(sku, order, reservation?.quantity ?? 0n);
      case "ALREADY_SETTLED":
        return { outcome, state: nameOf(ReservationStateNumber, reservation?.state ?? 0), stock };
      default:
        throw unknownAnswer("ReserveOutcome", message.outcome);
    }
  }
}

function readLevel(message: StockMessage | undefined): StockLevel {
  const { onHand, available, reserved, sold } = message ?? create(StockSchema);
  return { onHand, available, reserved, sold };
}

package io.tollgate;

import java.time.Duration;
import java.util.Optional;

/** Answer to a request for a quantity. A refusal is a value, not an exception. */
public sealed interface ReserveResult {
  /** Returns the reservation if the quantity is held. */
  default Optional<Reservation> held() {
    return this instanceof Reserved reserved
        ? Optional.of(reserved.reservation())
        : Optional.empty();
  }

  /**
   * The quantity is held for the order.
   *
   * @param reservation the reservation
   */
  record Reserved(Reservation reservation) implements ReserveResult {}

  /**
   * Fewer are available.
   *
   * @param retryAfter time until the next hold ends, if holds could free enough
   * @param stock the quantities now
   */
  record Shortage(Optional<Duration> retryAfter, StockLevel stock) implements ReserveResult {}

  /**
   * The buyer would have more than the limit.
   *
   * @param buyerQuantity quantity that the buyer has reserved and bought
   * @param stock the quantities now
   */
  record BuyerLimit(long buyerQuantity, StockLevel stock) implements ReserveResult {}

  /**
   * The reservation of the order was confirmed or cancelled.
   *
   * @param confirmed whether it was confirmed
   * @param stock the quantities now
   */
  record AlreadySettled(boolean confirmed, StockLevel stock) implements ReserveResult {}
}

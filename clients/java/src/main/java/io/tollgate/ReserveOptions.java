package io.tollgate;

import java.time.Duration;
import java.util.Optional;
import java.util.OptionalLong;

/**
 * Options of a reservation. Immutable.
 *
 * @param hold length of the hold, 1 ms to 30 days; default 15 minutes
 * @param buyer the buyer; default none
 * @param buyerLimit maximum that the buyer may have reserved and bought, this order included; needs
 *     a buyer; default no limit
 */
public record ReserveOptions(
    Optional<Duration> hold, Optional<String> buyer, OptionalLong buyerLimit) {
  private static final ReserveOptions DEFAULTS =
      new ReserveOptions(Optional.empty(), Optional.empty(), OptionalLong.empty());

  /** Returns the defaults: a hold of 15 minutes, no buyer. */
  public static ReserveOptions defaults() {
    return DEFAULTS;
  }

  /** Returns these options with a length of the hold. */
  public ReserveOptions withHold(Duration length) {
    return new ReserveOptions(Optional.of(length), buyer, buyerLimit);
  }

  /** Returns these options with a buyer. */
  public ReserveOptions withBuyer(String name) {
    return new ReserveOptions(hold, Optional.of(name), buyerLimit);
  }

  /** Returns these options with a buyer and the maximum for that buyer. */
  public ReserveOptions withBuyer(String name, long limit) {
    return new ReserveOptions(hold, Optional.of(name), OptionalLong.of(limit));
  }
}

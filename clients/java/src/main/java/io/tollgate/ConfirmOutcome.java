package io.tollgate;

/** Answer to a confirmation. */
public enum ConfirmOutcome {
  /** The quantity is sold to the order. */
  CONFIRMED,
  /** An earlier call sold it to the order. */
  ALREADY_CONFIRMED,
  /** The hold has lapsed, and the quantity cannot be taken again. */
  EXPIRED,
  /** The reservation was cancelled. */
  CANCELLED,
  /** The order has no known reservation. */
  UNKNOWN
}

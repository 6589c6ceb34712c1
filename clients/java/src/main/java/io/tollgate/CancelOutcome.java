package io.tollgate;

/** Answer to the cancellation of a reservation. */
public enum CancelOutcome {
  /** The quantity is available again. */
  CANCELLED,
  /** An earlier call cancelled it. */
  ALREADY_CANCELLED,
  /** It is sold. Nothing changed. */
  ALREADY_CONFIRMED,
  /** The hold had lapsed. Nothing changed. */
  EXPIRED,
  /** The order has no known reservation. */
  UNKNOWN
}

package io.tollgate;

import java.util.Optional;

/** How an attempt of a queued task ended without success. */
public enum AttemptEnd {
  /** The device reported FAILED, in time or late. */
  FAILED,
  /** Its lease and grace ended without a result. */
  EXPIRED,
  /**
   * It was evicted, or its admission was revoked because too few replicas acknowledged it. A
   * revoked attempt does not count.
   */
  EVICTED;

  /** Returns the value; empty if the attempt has not ended, or for a value of a newer server. */
  static Optional<AttemptEnd> of(io.tollgate.v1.AttemptEnd end) {
    return switch (end) {
      case ATTEMPT_END_FAILED -> Optional.of(FAILED);
      case ATTEMPT_END_EXPIRED -> Optional.of(EXPIRED);
      case ATTEMPT_END_EVICTED -> Optional.of(EVICTED);
      default -> Optional.empty();
    };
  }
}

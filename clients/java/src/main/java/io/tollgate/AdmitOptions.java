package io.tollgate;

import java.time.Duration;
import java.util.Objects;
import java.util.Optional;

/**
 * Options of an admission. Immutable.
 *
 * @param maxWait how long to wait for a slot; zero (default) does not wait. Any length: the library
 *     cuts a long wait into several calls, which keep its ticket
 * @param lease how long the lease runs, 100 ms to 24 h; empty (default) for that of the pool
 * @param keeper whether the library renews the lease until it is completed or closed; default true
 */
public record AdmitOptions(Duration maxWait, Optional<Duration> lease, boolean keeper) {
  private static final AdmitOptions DEFAULTS =
      new AdmitOptions(Duration.ZERO, Optional.empty(), true);

  /** Checks the options. Fails with IllegalArgumentException for a negative wait. */
  public AdmitOptions {
    Objects.requireNonNull(lease, "lease");
    if (maxWait.isNegative()) {
      throw new IllegalArgumentException("maxWait is negative: " + maxWait);
    }
  }

  /** Returns the defaults: no wait, the lease of the pool, with a keeper. */
  public static AdmitOptions defaults() {
    return DEFAULTS;
  }

  /** Returns these options with a wait. */
  public AdmitOptions withMaxWait(Duration wait) {
    return new AdmitOptions(wait, lease, keeper);
  }

  /** Returns these options with a length of the lease. */
  public AdmitOptions withLease(Duration length) {
    return new AdmitOptions(maxWait, Optional.of(length), keeper);
  }

  /** Returns these options with or without a keeper. */
  public AdmitOptions withKeeper(boolean renews) {
    return new AdmitOptions(maxWait, lease, renews);
  }
}

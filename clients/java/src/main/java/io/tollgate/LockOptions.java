package io.tollgate;

import java.time.Duration;
import java.util.Objects;
import java.util.Optional;

/**
 * Options of a lock. Immutable.
 *
 * @param owner the owner: unique among the competitors; default: a new random one for each call
 * @param maxWait how long to wait for the lock; zero (default) does not wait. Any length
 * @param lease how long the lease runs, 1 ms to 30 days; default 30 s
 * @param keeper whether the library renews the lease until the lock is released; default true
 */
public record LockOptions(
    Optional<String> owner, Duration maxWait, Optional<Duration> lease, boolean keeper) {
  private static final LockOptions DEFAULTS =
      new LockOptions(Optional.empty(), Duration.ZERO, Optional.empty(), true);

  /** Checks the options. Fails with IllegalArgumentException for a negative wait. */
  public LockOptions {
    Objects.requireNonNull(owner, "owner");
    Objects.requireNonNull(lease, "lease");
    if (maxWait.isNegative()) {
      throw new IllegalArgumentException("maxWait is negative: " + maxWait);
    }
  }

  /** Returns the defaults: no wait, a lease of 30 s, with a keeper. */
  public static LockOptions defaults() {
    return DEFAULTS;
  }

  /** Returns these options with an owner. */
  public LockOptions withOwner(String name) {
    return new LockOptions(Optional.of(name), maxWait, lease, keeper);
  }

  /** Returns these options with a wait. */
  public LockOptions withMaxWait(Duration wait) {
    return new LockOptions(owner, wait, lease, keeper);
  }

  /** Returns these options with a length of the lease. */
  public LockOptions withLease(Duration length) {
    return new LockOptions(owner, maxWait, Optional.of(length), keeper);
  }

  /** Returns these options with or without a keeper. */
  public LockOptions withKeeper(boolean renews) {
    return new LockOptions(owner, maxWait, lease, renews);
  }
}

package io.tollgate;

import java.time.Duration;
import java.util.Optional;

/** Answer to a request for a lock. A refusal is a value, not an exception. */
public sealed interface LockResult {
  /** Returns the lock if it was acquired. */
  default Optional<HeldLock> acquired() {
    return this instanceof Acquired acquired ? Optional.of(acquired.lock()) : Optional.empty();
  }

  /**
   * The owner holds the lock.
   *
   * @param lock the held lock
   */
  record Acquired(HeldLock lock) implements LockResult {}

  /**
   * Another owner holds the lock, or a waiter is next.
   *
   * @param holder the holder; empty if a waiter is next
   * @param retryAfter when to ask again; above zero
   */
  record Held(String holder, Duration retryAfter) implements LockResult {}
}

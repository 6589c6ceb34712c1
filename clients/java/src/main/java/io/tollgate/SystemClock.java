package io.tollgate;

import java.util.function.LongSupplier;

/**
 * Monotonic clock in nanoseconds that includes the time during which the machine was asleep.
 *
 * <p>{@link System#nanoTime()} may stand still while a machine sleeps. A wall clock that runs ahead
 * of it by more than half a second between two readings adds the difference. A wall clock that is
 * set forward can therefore end leases early, never late.
 */
final class SystemClock implements LongSupplier {
  private static final long JUMP_NANOS = 500_000_000L;

  private long slept;
  private long difference = difference(System.nanoTime());

  @Override
  public synchronized long getAsLong() {
    long now = System.nanoTime();
    long current = difference(now);
    if (current - difference > JUMP_NANOS) {
      slept += current - difference;
    }
    difference = current;
    return now + slept;
  }

  private static long difference(long nanoTime) {
    return System.currentTimeMillis() * 1_000_000L - nanoTime;
  }
}

package io.tollgate;

import java.time.Duration;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongSupplier;

/** A clock that tests move forward, as if the machine had slept. */
public final class TestClock implements LongSupplier {
  private final SystemClock clock = new SystemClock();
  private final AtomicLong ahead = new AtomicLong();

  /** Moves the clock forward. */
  public void advance(Duration time) {
    ahead.addAndGet(time.toNanos());
  }

  /** Makes a client use this clock. */
  public TollgateBuilder on(TollgateBuilder builder) {
    return builder.clock(this);
  }

  @Override
  public long getAsLong() {
    return clock.getAsLong() + ahead.get();
  }
}

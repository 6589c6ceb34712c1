package io.tollgate;

import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;

/** The parts that all objects of a client share: calls, clock, timer and threads. */
final class Core {
  private static final long JUMP_TICK_MILLIS = 250;
  private static final long JUMP_NANOS = 100_000_000L;

  /** Maximum time in which connections end. */
  private static final long END_MILLIS = 5_000;

  private final Calls calls;
  private final Endpoints endpoints;
  private final LongSupplier clock;
  private final ScheduledThreadPoolExecutor timer;
  private final ExecutorService executor;
  private final Waiter.Lengths waitLengths;
  private final CheckLog checks = new CheckLog();
  private final Claims claims = new Claims(this);
  private final Set<Lease> leases = ConcurrentHashMap.newKeySet();
  private long ahead;
  private volatile boolean closed;

  Core(
      Calls calls,
      Endpoints endpoints,
      LongSupplier clock,
      ScheduledThreadPoolExecutor timer,
      ExecutorService executor,
      Waiter.Lengths waitLengths) {
    this.calls = calls;
    this.endpoints = endpoints;
    this.clock = clock;
    this.timer = timer;
    this.executor = executor;
    this.waitLengths = waitLengths;
    this.ahead = clock.getAsLong() - System.nanoTime();
    var unused =
        timer.scheduleWithFixedDelay(
            this::checkClock, JUMP_TICK_MILLIS, JUMP_TICK_MILLIS, TimeUnit.MILLISECONDS);
  }

  Calls calls() {
    return calls;
  }

  Endpoints endpoints() {
    return endpoints;
  }

  LongSupplier clock() {
    return clock;
  }

  ScheduledThreadPoolExecutor timer() {
    return timer;
  }

  ExecutorService executor() {
    return executor;
  }

  /** The lengths of the calls of a wait. */
  Waiter.Lengths waitLengths() {
    return waitLengths;
  }

  /** The log of checks that were not decided. */
  CheckLog checks() {
    return checks;
  }

  /** The calls for leases, and the leases that are being given up. */
  Claims claims() {
    return claims;
  }

  /** The running leases. */
  Set<Lease> leases() {
    return leases;
  }

  /** Returns whether {@link #close()} was called. */
  boolean closed() {
    return closed;
  }

  /** Serves all leases after the machine has slept, since timers do not count that time. */
  private void checkClock() {
    long now = clock.getAsLong() - System.nanoTime();
    if (now - ahead > JUMP_NANOS) {
      leases.forEach(Lease::tick);
    }
    ahead = now;
  }

  /** Ends keepers, then calls and their pauses with UNAVAILABLE, then the connections. */
  void close() {
    synchronized (this) {
      if (closed) {
        return;
      }
      closed = true;
    }
    leases.forEach(Lease::stop);
    timer.shutdownNow();
    calls.close();
    endpoints.close();
    // The connections report the end of their streams in these threads.
    executor.execute(
        () -> {
          endpoints.awaitEnd(END_MILLIS);
          executor.shutdown();
        });
  }
}

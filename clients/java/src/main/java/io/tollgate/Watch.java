package io.tollgate;

import io.grpc.Status;
import io.tollgate.v1.AdmissionServiceGrpc;
import io.tollgate.v1.RateServiceGrpc;
import io.tollgate.v1.WatchPoolRequest;
import io.tollgate.v1.WatchRatesRequest;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.function.Function;
import java.util.function.Supplier;

/**
 * Events of a pool or a policy, in order and at least once.
 *
 * <p>{@link #hasNext()} blocks until an event arrives. A stream that breaks is opened again at the
 * cursor of its last event, after a pause that grows to 2 s. An event of kind GAP reports that
 * events are missing; so does one without a cursor, after a stream broke before its first event.
 * Errors that a retry cannot repair, such as an unknown policy or a closed client, are thrown. For
 * one thread; {@link #close()} may be called by another.
 */
public final class Watch<E> implements Iterator<E>, AutoCloseable {
  private final Core core;
  private final Function<String, Stream<E>> open;
  private final Function<E, String> cursorOf;
  private final Supplier<E> gap;
  private final Object closing = new Object();
  private volatile Stream<E> stream;
  private volatile boolean closed;
  private String cursor;
  private int failures;
  private E next;

  private Watch(
      Core core,
      Function<String, Stream<E>> open,
      Function<E, String> cursorOf,
      Supplier<E> gap,
      String after) {
    this.core = core;
    this.open = open;
    this.cursorOf = cursorOf;
    this.gap = gap;
    this.cursor = after;
  }

  static Watch<PoolEvent> pool(Core core, String pool, String after) {
    Function<String, Stream<PoolEvent>> open =
        cursor -> {
          var request = WatchPoolRequest.newBuilder().setPool(pool);
          if (cursor != null) {
            request.setAfter(cursor);
          }
          return Stream.open(
              core,
              AdmissionServiceGrpc.getWatchPoolMethod(),
              request.build(),
              r -> PoolEvent.of(r.getEvent()));
        };
    return new Watch<>(core, open, PoolEvent::cursor, PoolEvent::gap, after).begin();
  }

  static Watch<RateEvent> rates(Core core, String policy, String after) {
    Function<String, Stream<RateEvent>> open =
        cursor -> {
          var request = WatchRatesRequest.newBuilder().setPolicy(policy);
          if (cursor != null) {
            request.setAfter(cursor);
          }
          return Stream.open(
              core,
              RateServiceGrpc.getWatchRatesMethod(),
              request.build(),
              r -> RateEvent.of(r.getEvent()));
        };
    return new Watch<>(core, open, RateEvent::cursor, RateEvent::gap, after).begin();
  }

  /** Opens the stream and waits until the server has accepted it, at most for the deadline. */
  private Watch<E> begin() {
    reopen();
    stream.awaitOpen();
    return this;
  }

  /**
   * Waits for the next event. Returns false after {@link #close()}. An interrupt fails with
   * CANCELLED.
   */
  @Override
  public boolean hasNext() {
    while (next == null && !closed) {
      try {
        next = stream.take();
        failures = 0;
        String position = cursorOf.apply(next);
        cursor = position.isEmpty() ? cursor : position;
      } catch (TollgateException failure) {
        if (!closed) {
          recover(failure);
        }
      }
    }
    return next != null;
  }

  @Override
  public E next() {
    if (!hasNext()) {
      throw new NoSuchElementException("the watch is closed");
    }
    E event = next;
    next = null;
    return event;
  }

  /** Ends the stream. A thread in {@link #hasNext()} gets false. */
  @Override
  public void close() {
    closed = true;
    synchronized (closing) {
      closing.notifyAll();
    }
    stream.cancel();
  }

  private void recover(TollgateException failure) {
    if (core.closed() || !transientError(failure.code())) {
      throw failure.forCaller();
    }
    boolean missed = stream.wasOpen() && cursor == null;
    failures++;
    long told = failure.retryAfter().map(Times::nanos).orElse(0L);
    pause((told + Calls.backoff(failures)) / 1_000_000 + 1);
    if (missed) {
      next = gap.get();
    }
    reopen();
  }

  private void reopen() {
    synchronized (closing) {
      if (!closed) {
        stream = open.apply(cursor);
      }
    }
  }

  private void pause(long millis) {
    long end = System.nanoTime() + millis * 1_000_000;
    synchronized (closing) {
      try {
        for (long left = millis;
            left > 0 && !closed;
            left = (end - System.nanoTime()) / 1_000_000) {
          closing.wait(left);
        }
      } catch (InterruptedException interrupt) {
        Thread.currentThread().interrupt();
        throw new TollgateException(Status.Code.CANCELLED, "the watching thread was interrupted");
      }
    }
  }

  private static boolean transientError(Status.Code code) {
    return switch (code) {
      case UNAVAILABLE, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, INTERNAL, UNKNOWN, ABORTED -> true;
      default -> false;
    };
  }
}

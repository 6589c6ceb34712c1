package io.tollgate;

import io.grpc.Channel;
import io.grpc.ManagedChannel;
import io.grpc.Status;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;

/** One server: a connection for calls, and further ones for calls that wait and for streams. */
final class Endpoint {
  /** Waits and streams on one connection. A server accepts 256 calls on a connection by default. */
  static final int WAITS_PER_CONNECTION = 200;

  /** Consecutive deadlines after which one of several servers gets no calls. */
  private static final int LATE_MAX = 2;

  /** Time without calls to a server with the other protocol; it doubles up to the last. */
  private static final long REFUSED_FIRST = 1_000_000_000L;

  private static final long REFUSED_LAST = 10_000_000_000L;

  /** A connection that a call uses until {@link #release()}. */
  static final class Line {
    private final Channel channel;
    private final ManagedChannel managed;
    private int waits;

    Line(ManagedChannel managed, Channel channel) {
      this.managed = managed;
      this.channel = channel;
    }

    Channel channel() {
      return channel;
    }

    synchronized boolean take() {
      if (waits >= WAITS_PER_CONNECTION) {
        return false;
      }
      waits++;
      return true;
    }

    synchronized void release() {
      waits = Math.max(0, waits - 1);
    }
  }

  private final Supplier<Line> connect;
  private final Line main;
  private final List<Line> waitLines = new ArrayList<>();
  private boolean closed;
  private volatile boolean serving = true;

  /** Consecutive deadlines without an answer. */
  private final AtomicInteger late = new AtomicInteger();

  /** Whether it gets no calls until a health check succeeds. */
  private final AtomicBoolean hanging = new AtomicBoolean();

  /** The error of a server with the other protocol, and the pause after it. */
  private volatile TollgateException mismatch;

  private volatile long refusedUntil;
  private volatile long refusedPause;

  Endpoint(Supplier<Line> connect) {
    this.connect = connect;
    this.main = connect.get();
    var unused = main.managed.getState(true);
  }

  boolean serving() {
    return serving;
  }

  void serving(boolean now) {
    serving = now;
  }

  /** Returns how well the server takes calls: 0 badly, 1 without serving, 2 well. */
  int rank() {
    if (hanging.get() || refusal() != null) {
      return 0;
    }
    return serving ? 2 : 1;
  }

  /** Returns the error of calls during the pause after a connection with the wrong protocol. */
  TollgateException refusal() {
    TollgateException known = mismatch;
    return known != null && System.nanoTime() - refusedUntil < 0 ? known : null;
  }

  /** Records that the server has answered a call. */
  void answered() {
    late.set(0);
    mismatch = null;
    refusedPause = 0;
  }

  /** Records a call that failed without being late. */
  void failed(TollgateException error) {
    if (error.reason().equals(TollgateException.TLS_MISMATCH)) {
      refuse(error);
    } else if (error.code() != Status.Code.UNAVAILABLE && error.code() != Status.Code.CANCELLED) {
      answered();
    }
  }

  /**
   * Records a call without an answer within its deadline. Returns whether the server hangs from now
   * on.
   */
  boolean late() {
    return late.incrementAndGet() >= LATE_MAX && hanging.compareAndSet(false, true);
  }

  /** Records that a health check of a server that hangs has succeeded. */
  void recovered() {
    late.set(0);
    hanging.set(false);
  }

  private synchronized void refuse(TollgateException error) {
    if (refusal() == null) {
      refusedPause = Math.min(Math.max(2 * refusedPause, REFUSED_FIRST), REFUSED_LAST);
      refusedUntil = System.nanoTime() + refusedPause;
      mismatch = error;
    }
  }

  Line line() {
    return main;
  }

  /** Returns a connection with room for one more wait; opens one if there is none. */
  synchronized Line waitLine() {
    for (Line line : waitLines) {
      if (line.take()) {
        return line;
      }
    }
    Line line = connect.get();
    if (closed) {
      line.managed.shutdownNow();
    }
    line.take();
    waitLines.add(line);
    return line;
  }

  /** Ends the pauses between attempts to connect. */
  synchronized void reconnect() {
    main.managed.resetConnectBackoff();
    waitLines.forEach(line -> line.managed.resetConnectBackoff());
  }

  synchronized void close() {
    closed = true;
    main.managed.shutdownNow();
    waitLines.forEach(line -> line.managed.shutdownNow());
  }

  /** Waits until the connections have ended, at most until a reading of System.nanoTime(). */
  void awaitEnd(long end) throws InterruptedException {
    List<Line> all = new ArrayList<>(List.of(main));
    synchronized (this) {
      all.addAll(waitLines);
    }
    for (Line line : all) {
      var unused =
          line.managed.awaitTermination(Math.max(0, end - System.nanoTime()), TimeUnit.NANOSECONDS);
    }
  }
}

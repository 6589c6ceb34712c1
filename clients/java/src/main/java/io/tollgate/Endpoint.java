package io.tollgate;

import io.grpc.Channel;
import io.grpc.ManagedChannel;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

/** One server: a connection for calls, and further ones for calls that wait and for streams. */
final class Endpoint {
  /** Waits and streams on one connection. A server accepts 256 calls on a connection by default. */
  static final int WAITS_PER_CONNECTION = 200;

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

package io.tollgate;

import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.Status;
import io.grpc.health.v1.HealthCheckRequest;
import io.grpc.health.v1.HealthCheckResponse;
import io.grpc.health.v1.HealthGrpc;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.StreamObserver;
import java.util.List;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Distributes calls over the servers in turn. With several servers it watches their health, and
 * servers that are not SERVING get calls only if no other server is.
 */
final class Endpoints {
  private static final long WATCH_PAUSE_MILLIS = 500;

  private final List<Endpoint> servers;
  private final ScheduledExecutorService timer;
  private final CallOptions options;
  private final AtomicInteger next = new AtomicInteger();
  private volatile boolean closed;

  Endpoints(List<Endpoint> servers, ScheduledExecutorService timer, CallOptions options) {
    this.servers = List.copyOf(servers);
    this.timer = timer;
    this.options = options;
  }

  /** Begins to watch the health of the servers, if there are several. */
  void watch() {
    if (servers.size() > 1) {
      servers.forEach(this::watch);
    }
  }

  /**
   * Returns the next server: one that is serving and is not {@code failed}, else one that is
   * serving, else any.
   */
  Endpoint pick(Endpoint failed) {
    int start = next.getAndIncrement();
    Endpoint other = null;
    for (int i = 0; i < servers.size(); i++) {
      Endpoint server = servers.get(Math.floorMod(start + i, servers.size()));
      if (server.serving() && server != failed) {
        return server;
      }
      if (other == null && server != failed) {
        other = server;
      }
    }
    boolean onlyFailed = other == null || (failed != null && failed.serving());
    return onlyFailed ? failed : other;
  }

  void close() {
    closed = true;
    servers.forEach(Endpoint::close);
  }

  /** Waits until the connections have ended, at most for the given time. */
  void awaitEnd(long millis) {
    long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(millis);
    try {
      for (Endpoint server : servers) {
        server.awaitEnd(end);
      }
    } catch (InterruptedException interrupt) {
      Thread.currentThread().interrupt();
    }
  }

  private void watch(Endpoint server) {
    if (closed) {
      return;
    }
    ClientCall<HealthCheckRequest, HealthCheckResponse> call =
        server.line().channel().newCall(HealthGrpc.getWatchMethod(), options);
    ClientCalls.asyncServerStreamingCall(
        call, HealthCheckRequest.getDefaultInstance(), new HealthObserver(server));
  }

  private void watchLater(Endpoint server) {
    long pause = ThreadLocalRandom.current().nextLong(WATCH_PAUSE_MILLIS / 2, WATCH_PAUSE_MILLIS);
    try {
      var unused =
          timer.schedule(
              () -> {
                server.reconnect();
                watch(server);
              },
              pause,
              TimeUnit.MILLISECONDS);
    } catch (RejectedExecutionException ended) {
      closed = true;
    }
  }

  private final class HealthObserver implements StreamObserver<HealthCheckResponse> {
    private final Endpoint server;

    HealthObserver(Endpoint server) {
      this.server = server;
    }

    @Override
    public void onNext(HealthCheckResponse health) {
      server.serving(health.getStatus() == HealthCheckResponse.ServingStatus.SERVING);
    }

    @Override
    public void onError(Throwable error) {
      Status.Code code = Status.fromThrowable(error).getCode();
      boolean answers =
          code == Status.Code.UNIMPLEMENTED
              || code == Status.Code.UNAUTHENTICATED
              || code == Status.Code.PERMISSION_DENIED;
      server.serving(answers);
      watchLater(server);
    }

    @Override
    public void onCompleted() {
      watchLater(server);
    }
  }
}

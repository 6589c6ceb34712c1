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

  /** Deadline of a health check of a server that hangs. */
  private static final long CHECK_SECONDS = 2;

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
   * Returns the next server of the best ones: those that answer and serve, then those that only
   * answer, then those that hang. Among equal ones, it prefers one other than {@code failed}.
   */
  Endpoint pick(Endpoint failed) {
    int start = next.getAndIncrement();
    Endpoint best = null;
    int most = -1;
    for (int i = 0; i < servers.size(); i++) {
      Endpoint server = servers.get(Math.floorMod(start + i, servers.size()));
      int rank = 2 * server.rank() + (server == failed ? 0 : 1);
      if (rank > most) {
        best = server;
        most = rank;
      }
    }
    return best;
  }

  /**
   * Records a call without an answer within its deadline. After two in a row, one of several
   * servers gets no calls until a health check succeeds.
   */
  void late(Endpoint server) {
    if (servers.size() > 1 && server.late()) {
      check(server);
    }
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

  private void check(Endpoint server) {
    if (closed) {
      return;
    }
    ClientCall<HealthCheckRequest, HealthCheckResponse> call =
        server
            .line()
            .channel()
            .newCall(
                HealthGrpc.getCheckMethod(),
                options.withDeadlineAfter(CHECK_SECONDS, TimeUnit.SECONDS));
    ClientCalls.asyncUnaryCall(
        call, HealthCheckRequest.getDefaultInstance(), new CheckObserver(server));
  }

  private void later(Runnable work) {
    long pause = ThreadLocalRandom.current().nextLong(WATCH_PAUSE_MILLIS / 2, WATCH_PAUSE_MILLIS);
    try {
      var unused = timer.schedule(work, pause, TimeUnit.MILLISECONDS);
    } catch (RejectedExecutionException ended) {
      closed = true;
    }
  }

  private void watch(Endpoint server) {
    if (closed) {
      return;
    }
    if (server.refusal() != null) {
      later(() -> watch(server));
      return;
    }
    ClientCall<HealthCheckRequest, HealthCheckResponse> call =
        server.line().channel().newCall(HealthGrpc.getWatchMethod(), options);
    ClientCalls.asyncServerStreamingCall(
        call, HealthCheckRequest.getDefaultInstance(), new HealthObserver(server));
  }

  private void watchLater(Endpoint server) {
    later(
        () -> {
          if (server.refusal() == null) {
            server.reconnect();
          }
          watch(server);
        });
  }

  /** Returns whether the server answers calls although it reports no health to this client. */
  private static boolean answers(Status.Code code) {
    return code == Status.Code.UNIMPLEMENTED
        || code == Status.Code.UNAUTHENTICATED
        || code == Status.Code.PERMISSION_DENIED;
  }

  /** Processes the answer to a health check of a server that hangs. */
  private final class CheckObserver implements StreamObserver<HealthCheckResponse> {
    private final Endpoint server;
    private boolean healthy;

    CheckObserver(Endpoint server) {
      this.server = server;
    }

    @Override
    public void onNext(HealthCheckResponse health) {
      healthy = health.getStatus() == HealthCheckResponse.ServingStatus.SERVING;
    }

    @Override
    public void onError(Throwable error) {
      healthy = answers(Status.fromThrowable(error).getCode());
      onCompleted();
    }

    @Override
    public void onCompleted() {
      if (healthy) {
        server.recovered();
      } else {
        later(() -> check(server));
      }
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
      TollgateException failure = TollgateException.from(error);
      server.failed(failure);
      server.serving(answers(failure.code()));
      watchLater(server);
    }

    @Override
    public void onCompleted() {
      watchLater(server);
    }
  }
}

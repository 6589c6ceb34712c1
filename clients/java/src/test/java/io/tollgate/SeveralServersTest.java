package io.tollgate;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.ForwardingClientCall;
import io.grpc.ForwardingClientCallListener;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Two servers with one Redis. */
@Timeout(120)
class SeveralServersTest {
  private static final String FALLBACK =
      """
      [[pool]]
      match = "fallback"
      capacity = 100
      on_store_failure = "allow"
      """;

  private final List<String> failures = new CopyOnWriteArrayList<>();
  private Process redis;
  private TestServer first;
  private TestServer second;
  private Tollgate tollgate;

  @BeforeEach
  void start(@TempDir Path folder) throws Exception {
    int port = TestServer.freePort();
    redis =
        new ProcessBuilder(
                "redis-server",
                "--port",
                "" + port,
                "--bind",
                "127.0.0.1",
                "--save",
                "",
                "--dir",
                folder.toString())
            .redirectOutput(ProcessBuilder.Redirect.DISCARD)
            .start();
    TestServer.awaitPort(port, redis);
    String engine = "redis://127.0.0.1:" + port;
    first = TestServer.configured(FALLBACK, "--engine", engine);
    second = TestServer.configured(FALLBACK, "--engine", engine);
    tollgate =
        Tollgate.builder()
            .addresses(first.address(), second.address())
            .intercept(new Failures())
            .build();
  }

  /** Records the renewals and results that fail. */
  private final class Failures implements ClientInterceptor {
    @Override
    public <Q, A> ClientCall<Q, A> interceptCall(
        MethodDescriptor<Q, A> method, CallOptions options, Channel channel) {
      boolean recorded = InFlight.isExempt(method);
      return new ForwardingClientCall.SimpleForwardingClientCall<>(
          channel.newCall(method, options)) {
        @Override
        public void start(Listener<A> listener, Metadata headers) {
          super.start(
              new ForwardingClientCallListener.SimpleForwardingClientCallListener<>(listener) {
                @Override
                public void onClose(Status status, Metadata trailers) {
                  if (recorded && !status.isOk()) {
                    failures.add(method.getBareMethodName() + " " + status);
                  }
                  super.onClose(status, trailers);
                }
              },
              headers);
        }
      };
    }
  }

  @AfterEach
  void stop() {
    tollgate.close();
    first.close();
    second.close();
    redis.destroyForcibly();
    redis.onExit().join();
  }

  @Test
  void callsGoToTheServerThatRuns() throws Exception {
    Permit permit =
        tollgate
            .pool("p")
            .admit("d", "t", AdmitOptions.defaults().withLease(Duration.ofSeconds(5)))
            .granted()
            .orElseThrow();
    first.kill();
    for (int i = 0; i < 50; i++) {
      tollgate.sequence("s").next();
    }
    assertTrue(permit.valid());
    first.run();
    second.kill();
    for (int i = 0; i < 50; i++) {
      tollgate.sequence("s").next();
    }
    assertEquals(100, tollgate.sequence("s").status().last());
    assertEquals(CompleteVerdict.COMPLETED, permit.complete(Outcome.SUCCEEDED));
  }

  /** Only the server that granted a fallback lease knows it. */
  @Test
  void fallbackLeasesAreRenewedAndCompletedAtTheirServer() {
    Pool pool = tollgate.pool("fallback");
    Permit before = pool.admit("d", "before").granted().orElseThrow();
    assertFalse(before.degraded());
    before.close();
    redis.destroyForcibly();
    redis.onExit().join();
    AdmitOptions options = AdmitOptions.defaults().withLease(Duration.ofSeconds(3));
    List<Permit> permits = new ArrayList<>();
    while (permits.size() < 6) {
      var task = "t" + permits.size();
      // The servers notice the failure with their first calls.
      try {
        pool.admit("d", task, options).granted().filter(Permit::degraded).ifPresent(permits::add);
      } catch (TollgateException undecided) {
        assertEquals(Status.Code.UNAVAILABLE, undecided.code());
      }
    }
    for (Permit permit : permits) {
      for (int renewal = 0; renewal < 2; renewal++) {
        Duration left = permit.remaining();
        while (permit.remaining().compareTo(left) <= 0) {
          assertTrue(permit.valid());
          left = permit.remaining();
          TestServer.pause();
        }
      }
    }
    for (Permit permit : permits) {
      assertEquals(CompleteVerdict.COMPLETED, permit.complete(Outcome.SUCCEEDED));
    }
    assertEquals(List.of(), failures);
  }

  @Test
  void waitsDoNotStarveOtherCalls() throws Exception {
    Pool pool = tollgate.pool("full");
    pool.configure(new PoolSettings().capacity(1));
    Permit permit = pool.admit("d", "t").granted().orElseThrow();
    AdmitOptions options = AdmitOptions.defaults().withMaxWait(Duration.ofSeconds(60));
    List<CompletableFuture<Admission>> waits = new ArrayList<>();
    for (int i = 0; i < 700; i++) {
      waits.add(pool.admitAsync("w" + i, "t", options));
    }
    while (pool.status().waiters() < 700) {
      assertTrue(permit.valid());
      TestServer.pause();
    }
    assertEquals(CompleteVerdict.COMPLETED, permit.complete(Outcome.SUCCEEDED));
    CompletableFuture.anyOf(waits.toArray(CompletableFuture[]::new)).get(60, TimeUnit.SECONDS);
    waits.forEach(wait -> wait.cancel(true));
  }
}

package io.tollgate;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.Metadata;
import io.grpc.Status;
import java.nio.channels.ClosedChannelException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

@Timeout(120)
class RetryTest {
  private FaultServer server;
  private Tollgate tollgate;

  @BeforeEach
  void start() throws Exception {
    server = new FaultServer();
    tollgate = builder().build();
  }

  private TollgateBuilder builder() {
    return Tollgate.builder().addresses(server.address()).deadline(Duration.ofSeconds(20));
  }

  @AfterEach
  void stop() {
    tollgate.close();
    server.close();
  }

  private void fail(Status.Code code, int times) {
    for (int i = 0; i < times; i++) {
      server.faults.add(FaultServer.fault(code));
    }
  }

  private String header(int call, String name) {
    return server.headers.get(call).get(Metadata.Key.of(name, Metadata.ASCII_STRING_MARSHALLER));
  }

  @Test
  void retriesKeepTheRequestId() {
    server.faults.add(FaultServer.fault(Status.Code.UNAVAILABLE));
    server.faults.add(FaultServer.fault(Status.Code.DEADLINE_EXCEEDED));
    assertTrue(tollgate.limiter("p").check("k").allowed());
    assertEquals(3, server.requestIds.size());
    assertEquals(1, new HashSet<>(server.requestIds).size());
    assertFalse(server.requestIds.get(0).isEmpty());
    tollgate.limiter("p").check("k");
    assertEquals(2, new HashSet<>(server.requestIds).size());
  }

  @Test
  void connectionThatEndsDuringItsSetUpIsUnavailable() {
    Status local = Status.UNKNOWN.withCause(new ClosedChannelException());
    assertEquals(
        Status.Code.UNAVAILABLE, TollgateException.from(local.asRuntimeException()).code());
    Status remote = Status.UNKNOWN.withDescription("channel closed");
    assertEquals(Status.Code.UNKNOWN, TollgateException.from(remote.asRuntimeException()).code());
  }

  @Test
  void setStockIsNeverRetried() {
    fail(Status.Code.UNAVAILABLE, 1);
    TollgateException error =
        assertThrows(TollgateException.class, () -> tollgate.stock("s").set(1));
    assertEquals(Status.Code.UNAVAILABLE, error.code());
    assertEquals(1, server.requestIds.size());
  }

  @Test
  void addStockIsRetriedOnlyWithARequestId() {
    fail(Status.Code.UNAVAILABLE, 1);
    tollgate.stock("s").add(1);
    assertEquals(2, server.requestIds.size());
    assertEquals(server.requestIds.get(0), server.requestIds.get(1));
    fail(Status.Code.UNAVAILABLE, 1);
    assertThrows(TollgateException.class, () -> tollgate.stock("s").add(1, ""));
    assertEquals(3, server.requestIds.size());
  }

  @Test
  void nextIsRetriedOnlyWithARequestId() {
    fail(Status.Code.UNAVAILABLE, 1);
    tollgate.sequence("s").next();
    assertEquals(2, server.requestIds.size());
    assertEquals(server.requestIds.get(0), server.requestIds.get(1));
    fail(Status.Code.UNAVAILABLE, 1);
    SequenceOptions once = SequenceOptions.defaults().withRequestId("");
    assertThrows(TollgateException.class, () -> tollgate.sequence("s").next(once));
    assertEquals(3, server.requestIds.size());
  }

  @Test
  void overloadIsRetriedOnlyWithRetryInfo() {
    fail(Status.Code.RESOURCE_EXHAUSTED, 1);
    TollgateException error =
        assertThrows(TollgateException.class, () -> tollgate.limiter("p").check("k"));
    assertEquals(Status.Code.RESOURCE_EXHAUSTED, error.code());
    assertEquals(Optional.empty(), error.retryAfter());
    server.faults.add(
        FaultServer.faultWithRetryInfo(Status.Code.RESOURCE_EXHAUSTED, Duration.ofMillis(5)));
    assertTrue(tollgate.limiter("p").check("k").allowed());
    assertEquals(3, server.requestIds.size());
  }

  @Test
  void aLongRetryInfoIsLeftToTheCaller() {
    Duration pause = Duration.ofMinutes(5);
    server.faults.add(FaultServer.faultWithRetryInfo(Status.Code.UNAVAILABLE, pause));
    TollgateException error =
        assertThrows(TollgateException.class, () -> tollgate.limiter("p").check("k"));
    assertEquals(Optional.of(pause), error.retryAfter());
    assertEquals(1, server.requestIds.size());
  }

  @Test
  void invalidCallsAreNotRetried() {
    fail(Status.Code.INVALID_ARGUMENT, 1);
    assertThrows(TollgateException.class, () -> tollgate.limiter("p").check("k"));
    assertEquals(1, server.requestIds.size());
  }

  @Test
  void budgetLimitsRetries() {
    try (Tollgate limited = builder().retryBudget(0, 2).build()) {
      fail(Status.Code.UNAVAILABLE, 100);
      RateLimiter limiter = limited.limiter("p");
      for (int call = 0; call < 5; call++) {
        assertThrows(TollgateException.class, () -> limiter.check("k"));
      }
      assertEquals(7, server.requestIds.size());
    }
  }

  @Test
  void failurePolicyDecides() {
    fail(Status.Code.UNAVAILABLE, 4);
    RateDecision open = tollgate.limiter("p").failOpen().check("k");
    assertTrue(open.allowed());
    assertTrue(open.degraded());
    assertEquals(Optional.empty(), open.verdict());
    RateDecision closed = tollgate.limiter("p").failClosed().check("k");
    assertFalse(closed.allowed());
    assertEquals("1", closed.headers().get("retry-after"));
    fail(Status.Code.NOT_FOUND, 1);
    assertThrows(TollgateException.class, () -> tollgate.limiter("p").failClosed().check("k"));
    fail(Status.Code.NOT_FOUND, 1);
    assertTrue(tollgate.limiter("p").failOpen().check("k").degraded());
    fail(Status.Code.INVALID_ARGUMENT, 1);
    assertThrows(TollgateException.class, () -> tollgate.limiter("p").failOpen().check("k"));
  }

  @Test
  void tokenFileIsReadAgain(@TempDir Path folder) throws Exception {
    Path file = folder.resolve("token");
    Files.writeString(file, "first\n");
    try (Tollgate client = builder().tokenFile(file).namespace("blue").build()) {
      client.limiter("p").check("k");
      Files.writeString(file, "second token\n");
      client.limiter("p").check("k");
    }
    assertEquals("Bearer first", header(0, "authorization"));
    assertEquals("Bearer second token", header(1, "authorization"));
    assertEquals("blue", header(0, "x-tollgate-namespace"));
  }

  @Test
  void tokenThatCannotBeReadFailsTheCall(@TempDir Path folder) {
    try (Tollgate client = builder().tokenFile(folder.resolve("none")).build()) {
      TollgateException error =
          assertThrows(TollgateException.class, () -> client.limiter("p").check("k"));
      assertEquals(Status.Code.UNAUTHENTICATED, error.code());
    }
    assertEquals(List.of(), server.requestIds);
  }

  @Test
  void valuesThatNoHeaderCarriesAreBadFields() {
    for (String bad : List.of("two\nlines", "\u00fcber")) {
      TollgateException token = assertThrows(TollgateException.class, () -> builder().token(bad));
      assertEquals("token", token.violations().get(0).field());
      TollgateException namespace =
          assertThrows(TollgateException.class, () -> builder().namespace(bad));
      assertEquals("namespace", namespace.violations().get(0).field());
      try (Tollgate client = builder().token(() -> bad).build()) {
        TollgateException error =
            assertThrows(TollgateException.class, () -> client.limiter("p").check("k"));
        assertEquals(Status.Code.UNAUTHENTICATED, error.code());
        assertFalse(error.getMessage().contains(bad));
      }
    }
    assertEquals(List.of(), server.requestIds);
  }

  @Test
  void interruptCancelsTheCall() throws Exception {
    server.faults.add(
        FaultServer.faultWithRetryInfo(Status.Code.UNAVAILABLE, Duration.ofSeconds(9)));
    var error = new java.util.concurrent.CompletableFuture<TollgateException>();
    Thread caller =
        new Thread(
            () -> {
              try {
                tollgate.limiter("p").check("k");
              } catch (TollgateException failure) {
                error.complete(failure);
              }
            });
    caller.start();
    while (server.requestIds.isEmpty()) {
      TestServer.pause();
    }
    caller.interrupt();
    assertEquals(Status.Code.CANCELLED, error.get().code());
  }
}

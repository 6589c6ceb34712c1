package io.tollgate;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(120)
class PermitTest {
  private final TestClock clock = new TestClock();
  private TestServer server;
  private Tollgate tollgate;

  @BeforeEach
  void start() throws Exception {
    server = TestServer.start();
    tollgate = clock.on(Tollgate.builder().addresses(server.address())).build();
  }

  @AfterEach
  void stop() throws Exception {
    tollgate.close();
    server.close();
  }

  private Permit admit(String pool, AdmitOptions options) {
    return tollgate.pool(pool).admit("d", "t", options).granted().orElseThrow();
  }

  private static AdmitOptions lease(Duration length) {
    return AdmitOptions.defaults().withLease(length);
  }

  @Test
  void isLostAfterTheMachineSlept() throws Exception {
    Permit permit = admit("sleep", lease(Duration.ofSeconds(60)));
    clock.advance(Duration.ofSeconds(58));
    assertTrue(permit.valid());
    assertFalse(permit.isLost());
    clock.advance(Duration.ofSeconds(2));
    assertFalse(permit.valid());
    assertTrue(permit.isLost());
    assertEquals(Duration.ZERO, permit.remaining());
    assertEquals(LossReason.EXPIRED, permit.lost().toCompletableFuture().get(30, TimeUnit.SECONDS));
  }

  @Test
  void renewsAtOnceAfterAJumpWithinTheLease() {
    Permit permit = admit("jump", lease(Duration.ofHours(1)));
    try (var events = tollgate.pool("jump").watch("0")) {
      assertEquals(PoolEventKind.ADMITTED, events.next().kind());
      clock.advance(Duration.ofMinutes(45));
      assertEquals(PoolEventKind.RENEWED, events.next().kind());
    }
    assertTrue(permit.valid());
    assertFalse(permit.isLost());
  }

  @Test
  void lossIsReportedWithoutAUseOfThePermit() throws Exception {
    Permit permit = admit("report", lease(Duration.ofHours(1)));
    clock.advance(Duration.ofHours(1));
    assertEquals(LossReason.EXPIRED, permit.lost().toCompletableFuture().get(30, TimeUnit.SECONDS));
  }

  @Test
  void endsLocallyBeforeTheServerEndsIt() throws Exception {
    Permit permit = admit("margin", lease(Duration.ofSeconds(1)).withKeeper(false));
    permit.lost().toCompletableFuture().get(30, TimeUnit.SECONDS);
    assertEquals(LossReason.EXPIRED, permit.lost().toCompletableFuture().join());
    assertFalse(permit.valid());
    try (var events = tollgate.pool("margin").watch("0")) {
      assertEquals(PoolEventKind.ADMITTED, events.next().kind());
      assertEquals(PoolEventKind.EXPIRED, events.next().kind());
    }
  }

  @Test
  void keeperRenewsUntilCompletion() {
    Permit permit = admit("keeper", lease(Duration.ofMillis(900)));
    try (var events = tollgate.pool("keeper").watch("0")) {
      assertEquals(PoolEventKind.ADMITTED, events.next().kind());
      IntStream.range(0, 4).forEach(i -> assertEquals(PoolEventKind.RENEWED, events.next().kind()));
      assertTrue(permit.valid());
      assertEquals(CompleteVerdict.COMPLETED, permit.complete(Outcome.SUCCEEDED));
    }
    assertFalse(permit.isLost());
  }

  @Test
  void isLostWhenAnOperatorEvictsIt() throws Exception {
    Permit permit = admit("evict", lease(Duration.ofSeconds(3)));
    tollgate.pool("evict").evict("d", "t", "test");
    assertEquals(LossReason.EXPIRED, permit.lost().toCompletableFuture().get(30, TimeUnit.SECONDS));
  }

  @Test
  void errorOfTheBodyCompletesAsFailed() {
    Pool pool = tollgate.pool("failed");
    pool.enqueue(List.of(new QueuedTask("d", "t")));
    Permit permit = pool.poll("d").granted().orElseThrow();
    IOException failure = new IOException("the device is offline");
    IOException thrown =
        assertThrows(
            IOException.class,
            () ->
                permit.run(
                    p -> {
                      throw failure;
                    }));
    assertSame(failure, thrown);
    assertEquals(2, pool.poll("d").granted().orElseThrow().attempt());
  }

  @Test
  void closeLetsTheLeaseEnd() {
    Pool pool = tollgate.pool("close");
    try (Permit permit = admit("close", lease(Duration.ofMillis(400)))) {
      assertTrue(permit.valid());
    }
    try (var events = pool.watch("0")) {
      assertEquals(PoolEventKind.ADMITTED, events.next().kind());
      assertEquals(PoolEventKind.EXPIRED, events.next().kind());
    }
  }

  @Test
  void resultIsReportedAfterARestartOfTheServer() throws Exception {
    Permit permit = admit("restart", lease(Duration.ofSeconds(60)));
    server.kill();
    var verdict = permit.completeAsync(Outcome.SUCCEEDED, new byte[0]);
    server.run();
    assertEquals(CompleteVerdict.UNKNOWN, verdict.get(60, TimeUnit.SECONDS));
    assertEquals(CompleteVerdict.UNKNOWN, permit.complete(Outcome.SUCCEEDED));
  }

  @Test
  void workerRunsTasksAndDrains() throws Exception {
    Pool pool = tollgate.pool("worker");
    pool.enqueue(List.of(new QueuedTask("d", "t1"), new QueuedTask("d", "bad")));
    var failures = new java.util.concurrent.LinkedBlockingQueue<String>();
    var completed = new java.util.concurrent.LinkedBlockingQueue<String>();
    Worker worker =
        pool.worker(
                "d",
                permit -> {
                  if (permit.task().equals("bad")) {
                    throw new IllegalStateException("bad task");
                  }
                  return new byte[] {1};
                })
            .idlePause(Duration.ofMillis(20))
            .onError((task, error) -> failures.add(task))
            .onCompleted((permit, verdict) -> completed.add(permit.task() + " " + verdict))
            .start();
    assertEquals("t1 COMPLETED", completed.poll(30, TimeUnit.SECONDS));
    for (int attempt = 0; attempt < 3; attempt++) {
      assertEquals("bad", failures.poll(30, TimeUnit.SECONDS));
      assertEquals("bad COMPLETED", completed.poll(30, TimeUnit.SECONDS));
    }
    worker.close();
    assertEquals(4, worker.completed());
  }
}

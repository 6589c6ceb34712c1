package io.tollgate;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.Status;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

class AdmissionTest {
  private static TestServer server;
  private static Tollgate tollgate;

  @BeforeAll
  static void start() throws Exception {
    server = TestServer.start();
    tollgate = server.connect();
  }

  @AfterAll
  static void stop() throws Exception {
    tollgate.close();
    server.close();
  }

  private static Pool pool(String name, int capacity) {
    Pool pool = tollgate.pool(name);
    pool.configure(new PoolSettings().capacity(capacity));
    return pool;
  }

  private static Permit admitted(Admission admission) {
    return assertInstanceOf(Admission.Admitted.class, admission).permit();
  }

  @Test
  void refusalsAreValues() {
    Pool pool = pool("refusals", 1);
    Permit permit = admitted(pool.admit("d1", "t"));
    assertTrue(permit.valid());
    Admission.Full full = assertInstanceOf(Admission.Full.class, pool.admit("d2", "t"));
    assertTrue(full.retryAfter().toMillis() > 0);
    assertEquals(1, full.usage().inUse());
    assertEquals(CompleteVerdict.COMPLETED, permit.complete(Outcome.SUCCEEDED));
    assertFalse(permit.valid());
    assertInstanceOf(Admission.AlreadyCompleted.class, pool.admit("d1", "t"));
    assertInstanceOf(Admission.NoTask.class, pool.poll("d1"));
    pool.configure(new PoolSettings().paused(true));
    assertInstanceOf(Admission.Paused.class, pool.admit("d3", "t"));
  }

  @Test
  void repeatReturnsTheSameLease() {
    Pool pool = pool("repeat", 1);
    Permit first = admitted(pool.admit("d", "t"));
    Permit again = admitted(pool.admit("d", "t"));
    assertEquals(first.token(), again.token());
    assertTrue(again.replayed());
    first.close();
    again.close();
  }

  @Test
  void waitEndsWhenASlotIsFreed() {
    Pool pool = pool("wait", 1);
    Permit first = admitted(pool.admit("d1", "t"));
    AdmitOptions options =
        AdmitOptions.defaults()
            .withMaxWait(Duration.ofSeconds(30))
            .withLease(Duration.ofSeconds(2));
    var waiting = pool.admitAsync("d2", "t", options);
    awaitWaiters(pool, 1);
    first.complete(Outcome.SUCCEEDED);
    Permit second = admitted(Op.await(waiting));
    assertFalse(second.replayed());
    assertTrue(second.valid());
    second.complete(Outcome.SUCCEEDED);
  }

  @Test
  void cancelledWaitLeavesTheQueue() {
    Pool pool = pool("cancelled wait", 1);
    try (Permit permit = admitted(pool.admit("d1", "t"))) {
      AdmitOptions options = AdmitOptions.defaults().withMaxWait(Duration.ofSeconds(60));
      var waiting = pool.admitAsync("d2", "t", options);
      awaitWaiters(pool, 1);
      assertTrue(waiting.cancel(true));
      awaitWaiters(pool, 0);
      assertTrue(permit.valid());
    }
  }

  private static void awaitWaiters(Pool pool, int waiters) {
    while (pool.status().waiters() != waiters) {
      TestServer.pause();
    }
  }

  @Test
  void errorNamesTheBadFields() {
    TollgateException error =
        assertThrows(TollgateException.class, () -> tollgate.pool("").admit("", "t"));
    assertEquals(Status.Code.INVALID_ARGUMENT, error.code());
    assertEquals(
        List.of("device_id", "pool"),
        error.violations().stream().map(TollgateException.Violation::field).sorted().toList());
  }

  @Test
  void queuedTaskCarriesItsPayload() {
    Pool pool = pool("queue", 5);
    byte[] payload = "move 5".getBytes(StandardCharsets.UTF_8);
    QueuedTask task = new QueuedTask("d", "t1", payload);
    assertEquals(List.of(EnqueueStatus.ENQUEUED), pool.enqueue(List.of(task)));
    assertEquals(List.of(EnqueueStatus.DUPLICATE), pool.enqueue(List.of(task)));
    Permit permit = admitted(pool.poll("d"));
    assertEquals("t1", permit.task());
    assertEquals(1, permit.attempt());
    assertArrayEquals(payload, permit.payload());
    assertEquals("t1", pool.leases("").items().get(0).task());
    TaskStatus running = pool.tasks(Optional.empty(), "").items().get(0);
    assertEquals(TaskState.RUNNING, running.state());
    assertEquals(Optional.empty(), running.lastAttemptEnd());
    assertEquals(CancelVerdict.RUNNING, pool.cancel("d", "t1").verdict());
    assertEquals(EvictVerdict.EVICTED, pool.evict("d", "t1", "test").verdict());
    TaskStatus cancelled = pool.tasks(Optional.of(TaskState.CANCELLED), "").items().get(0);
    assertEquals(Optional.of(AttemptEnd.EVICTED), cancelled.lastAttemptEnd());
    assertEquals(RequeueVerdict.NOT_DEAD, pool.requeue("d", "t1"));
    assertEquals(RequeueVerdict.UNKNOWN, pool.requeue("d", "t2"));
    assertEquals(CompleteVerdict.LATE, permit.complete(Outcome.SUCCEEDED));
  }

  @Test
  void bulkCallsKeepTheOrderAndSplitLongLists() {
    pool("bulk", 5_000);
    List<Bulk.Admit> items = new ArrayList<>();
    IntStream.range(0, 2_500)
        .forEach(i -> items.add(new Bulk.Admit("bulk", "d" + i, "t", Optional.empty())));
    items.set(7, new Bulk.Admit("", "d", "t", Optional.empty()));
    List<Bulk.Result<Admission>> admitted = tollgate.bulk().admit(items);
    assertEquals(2_500, admitted.size());
    assertEquals(Status.Code.INVALID_ARGUMENT, admitted.get(7).error().orElseThrow().code());
    assertEquals("d2499", admitted(admitted.get(2_499).get()).device());
    long token = admitted(admitted.get(0).get()).token();
    OptionalLong right = OptionalLong.of(token);
    var renewed =
        tollgate.bulk().renew(List.of(new Bulk.Renew("bulk", "d0", "t", right, Optional.empty())));
    assertEquals(RenewVerdict.RENEWED, renewed.get(0).get().verdict());
    var completed =
        tollgate
            .bulk()
            .complete(
                List.of(
                    new Bulk.Complete("bulk", "d1", "t", OptionalLong.of(1)),
                    new Bulk.Complete("bulk", "d0", "t", right)));
    assertEquals(CompleteVerdict.STALE_TOKEN, completed.get(0).get());
    assertEquals(CompleteVerdict.COMPLETED, completed.get(1).get());
  }

  @Test
  void singleCallsWithoutPermit() {
    Pool pool = pool("single", 5);
    Permit permit = admitted(pool.admit("d", "t"));
    OptionalLong token = OptionalLong.of(permit.token());
    assertEquals(RenewVerdict.RENEWED, pool.renew("d", "t", token, Optional.empty()).verdict());
    assertEquals(
        CompleteVerdict.COMPLETED, pool.complete("d", "t", token, Outcome.SUCCEEDED, new byte[0]));
    assertEquals(CompleteVerdict.ALREADY_COMPLETED, permit.complete(Outcome.SUCCEEDED));
  }
}

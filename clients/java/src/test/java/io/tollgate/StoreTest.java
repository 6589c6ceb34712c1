package io.tollgate;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.Status;
import java.time.Duration;
import java.util.OptionalLong;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(120)
class StoreTest {
  private static TestServer server;
  private static Tollgate tollgate;

  @BeforeAll
  static void start() throws Exception {
    server = TestServer.start();
    tollgate = server.connect();
  }

  @AfterAll
  static void stop() {
    tollgate.close();
    server.close();
  }

  @Test
  void sequenceCountsFromAFloor() {
    Sequence sequence = tollgate.sequence("plain");
    assertEquals(1, sequence.next());
    SequenceValues values =
        sequence.next(SequenceOptions.defaults().withCount(3).withStep(5).withFloor(1L << 60));
    assertEquals(1L << 60, values.first());
    assertEquals((1L << 60) + 10, values.last());
    assertTrue(values.floorApplied());
    assertEquals((1L << 60) + 10, sequence.status().last());
  }

  @Test
  void requestIdReturnsTheSameValues() {
    SequenceOptions options = SequenceOptions.defaults().withRequestId("r1");
    SequenceValues first = tollgate.sequence("replay").next(options);
    SequenceValues again = tollgate.sequence("replay").next(options);
    assertEquals(first.first(), again.first());
    assertTrue(again.replayed());
  }

  @Test
  void allocatorNeverRepeatsAValue() {
    Allocator allocator = tollgate.sequence("day:allocator").allocator(16);
    Set<Long> values = ConcurrentHashMap.newKeySet();
    IntStream.range(0, 1_000)
        .parallel()
        .forEach(
            i -> {
              Allocator.Value value = allocator.next();
              assertTrue(values.add(value.value()), "repeated: " + value);
              String digits = value.serial().orElseThrow().replaceAll("[^0-9]", "");
              assertEquals(Long.toString(value.value()), digits);
            });
    assertEquals(1_000, values.size());
  }

  @Test
  void lockHasOneOwner() {
    Lock lock = tollgate.lock("one owner");
    HeldLock held = lock.acquire().acquired().orElseThrow();
    LockResult.Held refused = assertInstanceOf(LockResult.Held.class, lock.acquire());
    assertEquals(held.owner(), refused.holder());
    assertTrue(lock.status().held());
    assertEquals(ReleaseOutcome.RELEASED, held.release());
    assertFalse(held.valid());
    try (HeldLock next = lock.acquire().acquired().orElseThrow()) {
      assertTrue(Long.compareUnsigned(next.token(), held.token()) > 0);
    }
    assertFalse(lock.status().held());
  }

  @Test
  void lockWaiterFollowsTheHolder() {
    Lock lock = tollgate.lock("waiter");
    HeldLock first = lock.acquire().acquired().orElseThrow();
    var waiting =
        lock.acquireAsync(
            LockOptions.defaults()
                .withOwner("second")
                .withMaxWait(Duration.ofSeconds(60))
                .withLease(Duration.ofSeconds(5)));
    while (lock.status().waiters() == 0) {
      TestServer.pause();
    }
    first.release();
    HeldLock second = Op.await(waiting).acquired().orElseThrow();
    assertEquals("second", lock.status().owner());
    second.close();
  }

  @Test
  void keeperKeepsTheLockAndReportsItsLoss() throws Exception {
    Lock lock = tollgate.lock("keeper");
    LockOptions options = LockOptions.defaults().withOwner("o").withLease(Duration.ofMillis(600));
    HeldLock held = lock.acquire(options).acquired().orElseThrow();
    long end = System.nanoTime() + Duration.ofMillis(1_500).toNanos();
    while (System.nanoTime() < end) {
      assertEquals(held.token(), lock.status().token());
    }
    HeldLock twin = lock.acquire(options.withKeeper(false)).acquired().orElseThrow();
    twin.release();
    assertEquals(LossReason.NOT_HELD, held.lost().toCompletableFuture().get());
  }

  @Test
  void stockKeepsItsSum() {
    Stock stock = tollgate.stock("ticket");
    TollgateException unknown = assertThrows(TollgateException.class, stock::get);
    assertEquals(Status.Code.NOT_FOUND, unknown.code());
    assertEquals("STOCK_NOT_FOUND", unknown.reason());
    assertEquals(10, stock.set(10).available());
    assertEquals(15, stock.add(5).stock().onHand());
    assertEquals(12, stock.add(-3).stock().onHand());
  }

  @Test
  void reservationScopeConfirmsOrCancels() {
    Stock stock = tollgate.stock("scope");
    stock.set(10);
    try (Reservation reservation = stock.reserve("o1", 4).held().orElseThrow()) {
      assertEquals(6, reservation.stock().available());
      assertFalse(reservation.replayed());
      assertEquals(OptionalLong.empty(), reservation.stock().holds());
      assertEquals(new StockLevel(10, 6, 4, 0, OptionalLong.of(1)), stock.get());
    }
    assertEquals(new StockLevel(10, 10, 0, 0, OptionalLong.of(0)), stock.get());
    try (Reservation reservation = stock.reserve("o2", 4).held().orElseThrow()) {
      assertEquals(ConfirmOutcome.CONFIRMED, reservation.confirm().outcome());
    }
    assertEquals(new StockLevel(6, 6, 0, 4, OptionalLong.of(0)), stock.get());
    assertInstanceOf(ReserveResult.Shortage.class, stock.reserve("o3", 7));
    ReserveResult settled = stock.reserve("o2", 1);
    assertTrue(assertInstanceOf(ReserveResult.AlreadySettled.class, settled).confirmed());
    assertEquals(CancelOutcome.ALREADY_CONFIRMED, stock.cancel("o2"));
    assertEquals(CancelOutcome.UNKNOWN, stock.cancel("none"));
  }

  @Test
  void buyerLimitAndLatePayment() {
    Stock stock = tollgate.stock("buyer");
    stock.set(10);
    ReserveOptions options =
        ReserveOptions.defaults().withBuyer("b", 2).withHold(Duration.ofMillis(1));
    var unused = stock.reserve("o1", 2, options).held().orElseThrow();
    while (stock.get().reserved() > 0) {
      TestServer.pause();
    }
    Confirmation late = stock.confirm("o1");
    assertEquals(ConfirmOutcome.CONFIRMED, late.outcome());
    assertTrue(late.retaken());
    ReserveResult refused = stock.reserve("o2", 1, options);
    assertEquals(2, assertInstanceOf(ReserveResult.BuyerLimit.class, refused).buyerQuantity());
  }
}

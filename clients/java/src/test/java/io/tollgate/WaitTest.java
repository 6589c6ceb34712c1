package io.tollgate;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.MethodDescriptor;
import io.tollgate.v1.AdmissionServiceGrpc;
import io.tollgate.v1.LockServiceGrpc;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.IntSupplier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Long waits, cut into short calls, and the deadlines of calls. */
@Timeout(120)
class WaitTest {
  private static final Duration LONG = Duration.ofMinutes(5);

  /** After this number of calls the first ones have ended: 200 ms apart, 2.2 s each. */
  private static final int MANY_CALLS = 20;

  private TestServer server;
  private Tollgate observer;
  private final Recorder firstCalls = new Recorder();
  private final Recorder secondCalls = new Recorder();
  private Tollgate first;
  private Tollgate second;

  @BeforeEach
  void start() throws Exception {
    server = TestServer.start();
    observer = server.connect();
    first = client(firstCalls);
    second = client(secondCalls);
  }

  private Tollgate client(Recorder calls) {
    return Tollgate.builder()
        .addresses(server.address())
        .waitLengths(new Waiter.Lengths(Duration.ofMillis(200), Duration.ofSeconds(2)))
        .deadline(Duration.ofSeconds(20))
        .intercept(calls)
        .build();
  }

  @AfterEach
  void stop() {
    first.close();
    second.close();
    observer.close();
    server.close();
  }

  private static void await(IntSupplier value, int atLeast) {
    while (value.getAsInt() < atLeast) {
      TestServer.pause();
    }
  }

  @Test
  void aLongWaitForASlotKeepsItsTicket() {
    Pool pool = observer.pool("long");
    pool.configure(new PoolSettings().capacity(1));
    Permit holder = pool.admit("holder", "t").granted().orElseThrow();
    AdmitOptions options = AdmitOptions.defaults().withMaxWait(LONG);
    var one = first.pool("long").admitAsync("d1", "t", options);
    await(() -> pool.status().waiters(), 1);
    var two = second.pool("long").admitAsync("d2", "t", options);
    String method = AdmissionServiceGrpc.getAdmitTaskMethod().getFullMethodName();
    await(() -> firstCalls.sent(method), MANY_CALLS);
    await(() -> secondCalls.sent(method), MANY_CALLS);
    assertEquals(2, pool.status().waiters());
    holder.complete(Outcome.SUCCEEDED);
    Permit permit = assertInstanceOf(Admission.Admitted.class, Op.await(one)).permit();
    assertFalse(two.isDone());
    assertEquals(CompleteVerdict.COMPLETED, permit.complete(Outcome.SUCCEEDED));
    assertInstanceOf(Admission.Admitted.class, Op.await(two)).permit().close();
  }

  @Test
  void aLongWaitForALockKeepsItsTicket() {
    Lock lock = observer.lock("long");
    HeldLock holder = lock.acquire().acquired().orElseThrow();
    LockOptions options = LockOptions.defaults().withMaxWait(LONG);
    var one = first.lock("long").acquireAsync(options.withOwner("one"));
    await(() -> lock.status().waiters(), 1);
    var two = second.lock("long").acquireAsync(options.withOwner("two"));
    String method = LockServiceGrpc.getAcquireLockMethod().getFullMethodName();
    await(() -> firstCalls.sent(method), MANY_CALLS);
    await(() -> secondCalls.sent(method), MANY_CALLS);
    assertEquals(2, lock.status().waiters());
    holder.release();
    HeldLock held = Op.await(one).acquired().orElseThrow();
    assertEquals("one", lock.status().owner());
    assertFalse(two.isDone());
    held.release();
    Op.await(two).acquired().orElseThrow().close();
  }

  @Test
  void aCancelledLongWaitCancelsAllItsCalls() {
    Pool pool = observer.pool("cancelled");
    pool.configure(new PoolSettings().capacity(1));
    Permit holder = pool.admit("holder", "t").granted().orElseThrow();
    var wait =
        first.pool("cancelled").admitAsync("d", "t", AdmitOptions.defaults().withMaxWait(LONG));
    String method = AdmissionServiceGrpc.getAdmitTaskMethod().getFullMethodName();
    await(() -> firstCalls.sent(method), 3);
    assertTrue(wait.cancel(true));
    while (pool.status().waiters() > 0) {
      TestServer.pause();
    }
    assertEquals(CompleteVerdict.COMPLETED, holder.complete(Outcome.SUCCEEDED));
  }

  @Test
  void aWaitEndsWithTheRefusalOfItsLastCall() {
    Pool pool = observer.pool("refused");
    pool.configure(new PoolSettings().capacity(1));
    Permit holder = pool.admit("holder", "t").granted().orElseThrow();
    AdmitOptions options = AdmitOptions.defaults().withMaxWait(Duration.ofSeconds(3));
    Admission answer = first.pool("refused").admit("d", "t", options);
    assertInstanceOf(Admission.Full.class, answer);
    assertEquals(0, pool.status().waiters());
    holder.close();
  }

  @Test
  void bulkCallsHaveFiveDeadlines() {
    Pool pool = first.pool("bulk");
    pool.enqueue(List.of(new QueuedTask("d", "t1", new byte[0])));
    pool.status();
    first.bulk().admit(List.of(new Bulk.Admit("bulk", "d", "t2", Optional.empty())));
    assertTrue(firstCalls.seconds(AdmissionServiceGrpc.getGetPoolMethod()) <= 20);
    assertTrue(firstCalls.seconds(AdmissionServiceGrpc.getEnqueueTasksMethod()) > 20);
    assertTrue(firstCalls.seconds(AdmissionServiceGrpc.getAdmitTasksMethod()) > 20);
  }

  /** Counts calls by method, and notes the deadline of the last one. */
  private static final class Recorder implements ClientInterceptor {
    private final Map<String, AtomicInteger> sent = new ConcurrentHashMap<>();
    private final Map<String, Long> seconds = new ConcurrentHashMap<>();

    @Override
    public <Q, A> ClientCall<Q, A> interceptCall(
        MethodDescriptor<Q, A> method, CallOptions options, Channel next) {
      String name = method.getFullMethodName();
      sent.computeIfAbsent(name, unused -> new AtomicInteger()).incrementAndGet();
      if (options.getDeadline() != null) {
        seconds.put(name, options.getDeadline().timeRemaining(TimeUnit.SECONDS));
      }
      return next.newCall(method, options);
    }

    int sent(String method) {
      AtomicInteger count = sent.get(method);
      return count == null ? 0 : count.get();
    }

    long seconds(MethodDescriptor<?, ?> method) {
      return seconds.get(method.getFullMethodName());
    }
  }
}

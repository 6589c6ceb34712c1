package io.tollgate;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.grpc.Status;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** What ends when a client is closed. */
@Timeout(120)
class CloseTest {
  private TestServer server;
  private Tollgate tollgate;
  private Tollgate observer;

  @BeforeEach
  void start() throws Exception {
    server = TestServer.start();
    tollgate = server.connect();
    observer = server.connect();
  }

  @AfterEach
  void stop() {
    tollgate.close();
    observer.close();
    server.close();
  }

  private static void unavailable(CompletableFuture<?> call) {
    var failure = assertThrows(ExecutionException.class, () -> call.get(60, TimeUnit.SECONDS));
    TollgateException error = assertInstanceOf(TollgateException.class, failure.getCause());
    assertEquals(Status.Code.UNAVAILABLE, error.code());
  }

  @Test
  void waitingCallEnds() {
    Pool pool = observer.pool("wait");
    pool.configure(new PoolSettings().capacity(1));
    Permit holder = pool.admit("holder", "t").granted().orElseThrow();
    AdmitOptions waiting = AdmitOptions.defaults().withMaxWait(Duration.ofMinutes(5));
    var call = tollgate.pool("wait").admitAsync("d", "t", waiting);
    while (pool.status().waiters() == 0) {
      TestServer.pause();
    }
    tollgate.close();
    unavailable(call);
    while (pool.status().waiters() > 0) {
      TestServer.pause();
    }
    assertEquals(CompleteVerdict.COMPLETED, holder.complete(Outcome.SUCCEEDED));
  }

  @Test
  void callBetweenTwoAttemptsEnds() {
    Permit permit = tollgate.pool("retry").admit("d", "t").granted().orElseThrow();
    server.kill();
    var call = permit.completeAsync(Outcome.SUCCEEDED, new byte[0]);
    tollgate.close();
    unavailable(call);
  }

  @Test
  void laterCallsFailAtOnce() {
    tollgate.close();
    tollgate.close();
    unavailable(tollgate.sequence("later").nextAsync(SequenceOptions.defaults()));
    assertEquals(1, observer.sequence("later").next());
  }

  @Test
  void permitIsNoLongerValid() {
    Permit permit = tollgate.pool("permit").admit("d", "t").granted().orElseThrow();
    tollgate.close();
    assertFalse(permit.valid());
    assertFalse(permit.isLost());
  }

  @Test
  void watchFails() {
    Watch<PoolEvent> watch = tollgate.pool("watch").watch();
    var next = CompletableFuture.supplyAsync(watch::hasNext);
    tollgate.close();
    unavailable(next);
  }

  @Test
  void workerEnds() throws Exception {
    var errors = new LinkedBlockingQueue<Throwable>();
    var unused =
        tollgate
            .pool("worker")
            .worker("closing", permit -> new byte[0])
            .idlePause(Duration.ofMillis(1))
            .onError((task, error) -> errors.add(error))
            .start();
    tollgate.close();
    assertInstanceOf(TollgateException.class, errors.poll(60, TimeUnit.SECONDS));
    for (Thread thread : Thread.getAllStackTraces().keySet()) {
      if (thread.getName().equals("tollgate-worker-closing")) {
        thread.join();
      }
    }
    assertEquals(0, errors.size());
  }
}

package io.tollgate;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.grpc.Status;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

@Timeout(120)
class WatchTest {
  @Test
  void watchResumesAtItsCursorAfterARestart(@TempDir Path data) throws Exception {
    try (TestServer server =
            TestServer.start("--data-dir", data.toString(), "--durability", "always");
        Tollgate tollgate = server.connect();
        Watch<PoolEvent> watch = tollgate.pool("p").watch()) {
      Permit permit = tollgate.pool("p").admit("d", "t").granted().orElseThrow();
      assertEquals(PoolEventKind.ADMITTED, watch.next().kind());
      server.kill();
      server.run();
      assertEquals(CompleteVerdict.COMPLETED, permit.complete(Outcome.SUCCEEDED));
      PoolEvent completed = watch.next();
      assertEquals(PoolEventKind.COMPLETED, completed.kind());
      assertEquals(permit.token(), completed.token());
    }
  }

  @Test
  void breakBeforeTheFirstEventIsAGap() throws Exception {
    try (TestServer server = TestServer.start();
        Tollgate tollgate = server.connect();
        Watch<PoolEvent> watch = tollgate.pool("p").watch()) {
      server.kill();
      server.run();
      assertEquals(PoolEventKind.GAP, watch.next().kind());
    }
  }

  @Test
  void watchesDoNotDelayOtherCalls() throws Exception {
    List<Watch<PoolEvent>> watches = new ArrayList<>();
    try (TestServer server = TestServer.start();
        Tollgate tollgate = server.connect()) {
      // A server accepts 256 calls on a connection.
      for (int i = 0; i < 300; i++) {
        watches.add(tollgate.pool("p" + i).watch());
      }
      assertEquals(1, tollgate.sequence("s").next());
      watches.forEach(Watch::close);
      for (int i = 0; i < 300; i++) {
        watches.add(tollgate.pool("p" + i).watch("0"));
      }
      tollgate.pool("p299").admit("d", "t");
      assertEquals(PoolEventKind.ADMITTED, watches.get(599).next().kind());
    }
  }

  @Test
  void closeEndsAWaitingIterator() throws Exception {
    try (TestServer server = TestServer.start();
        Tollgate tollgate = server.connect()) {
      Watch<RateEvent> watch = tollgate.rates().watch("tiers");
      CompletableFuture<Boolean> next = CompletableFuture.supplyAsync(watch::hasNext);
      watch.close();
      assertFalse(next.get(60, TimeUnit.SECONDS));
    }
  }

  @Test
  void rateEventsArrive() throws Exception {
    try (TestServer server = TestServer.start();
        Tollgate tollgate = server.connect();
        Watch<RateEvent> watch = tollgate.rates().watch("tiers", "0")) {
      tollgate.limiter("tiers").check("k");
      tollgate.limiter("tiers").check("k");
      RateEvent event = watch.next();
      assertEquals(RateEventKind.WARNED, event.kind());
      assertEquals("k", event.key());
      assertEquals(1, event.above().orElseThrow());
    }
  }

  @Test
  void unknownPolicyIsAnError() throws Exception {
    try (TestServer server = TestServer.start();
        Tollgate tollgate = server.connect();
        Watch<RateEvent> watch = tollgate.rates().watch("none")) {
      TollgateException error = assertThrows(TollgateException.class, watch::hasNext);
      assertEquals(Status.Code.NOT_FOUND, error.code());
    }
  }
}

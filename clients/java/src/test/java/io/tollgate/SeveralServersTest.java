package io.tollgate;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Two servers with one Redis. */
@Timeout(120)
class SeveralServersTest {
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
    first = TestServer.start("--engine", engine);
    second = TestServer.start("--engine", engine);
    tollgate = Tollgate.connect(first.address(), second.address());
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
    }
    assertEquals(CompleteVerdict.COMPLETED, permit.complete(Outcome.SUCCEEDED));
    CompletableFuture.anyOf(waits.toArray(CompletableFuture[]::new)).get(60, TimeUnit.SECONDS);
    waits.forEach(wait -> wait.cancel(true));
  }
}

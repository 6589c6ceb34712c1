package io.tollgate.runner;

import com.sun.management.OperatingSystemMXBean;
import io.tollgate.Admission;
import io.tollgate.AdmitOptions;
import io.tollgate.CompleteVerdict;
import io.tollgate.Outcome;
import io.tollgate.Permit;
import io.tollgate.Pool;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.IntPredicate;

/** Commands that measure the library. */
final class LoadCommands {
  private static final int PARALLEL = 32;

  /** Permits that the command {@code hold} keeps. */
  private record Held(List<Permit> permits) {}

  private final Session session;

  LoadCommands(Session session) {
    this.session = session;
  }

  void register(Map<String, Runner.Action> actions) {
    actions.put("hold", this::hold);
    actions.put("held", this::held);
    actions.put("release", this::release);
    actions.put("pairs", this::pairs);
    actions.put("usage", this::usage);
    actions.put("clock", this::clock);
  }

  private Json hold(Command command) throws Exception {
    Pool pool = session.client(command).pool(command.text("pool"));
    AdmitOptions options = AdmitOptions.defaults().withLease(command.duration("lease"));
    Permit[] permits = new Permit[(int) command.number("count")];
    int admitted =
        each(
            permits.length,
            PARALLEL,
            i -> {
              Admission admission = pool.admit(command.text("handle") + "-" + i, "t", options);
              admission.granted().ifPresent(permit -> permits[i] = permit);
              return permits[i] != null;
            });
    List<Permit> kept = new ArrayList<>();
    for (Permit permit : permits) {
      if (permit != null) {
        kept.add(permit);
      }
    }
    session.keep(command, new Held(kept));
    return new Json().put("admitted", admitted);
  }

  private Json held(Command command) {
    List<Permit> permits = session.object(command, Held.class).permits();
    return new Json()
        .put("valid", (int) permits.stream().filter(Permit::valid).count())
        .put("lost", (int) permits.stream().filter(Permit::isLost).count());
  }

  private Json release(Command command) throws Exception {
    List<Permit> permits = session.object(command, Held.class).permits();
    int completed =
        each(
            permits.size(),
            PARALLEL,
            i -> permits.get(i).complete(Outcome.SUCCEEDED) == CompleteVerdict.COMPLETED);
    session.forget(command);
    return new Json().put("completed", completed);
  }

  private Json pairs(Command command) throws Exception {
    Pool pool = session.client(command).pool(command.text("pool"));
    String name = "pair-" + command.text("id") + "-" + System.nanoTime() + "-";
    int completed =
        each(
            (int) command.number("count"),
            command.number("parallel", 1),
            i -> {
              Admission admission = pool.admit(name + i, "t");
              return admission
                  .granted()
                  .map(permit -> permit.complete(Outcome.SUCCEEDED) == CompleteVerdict.COMPLETED)
                  .orElse(false);
            });
    return new Json().put("completed", completed);
  }

  /** Runs a step for 0 to count - 1 in several threads; returns how many returned true. */
  private static int each(int count, int parallel, IntPredicate step)
      throws ExecutionException, InterruptedException {
    AtomicInteger next = new AtomicInteger();
    AtomicInteger done = new AtomicInteger();
    ExecutorService threads = Executors.newFixedThreadPool(Math.max(1, parallel));
    try {
      List<Future<?>> all = new ArrayList<>();
      for (int thread = 0; thread < parallel; thread++) {
        all.add(
            threads.submit(
                () -> {
                  for (int i = next.getAndIncrement(); i < count; i = next.getAndIncrement()) {
                    if (step.test(i)) {
                      done.incrementAndGet();
                    }
                  }
                }));
      }
      for (Future<?> one : all) {
        one.get();
      }
    } finally {
      threads.shutdownNow();
    }
    return done.get();
  }

  private Json usage(Command command) throws IOException {
    System.gc();
    System.gc();
    var system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    String resident =
        Files.readAllLines(Path.of("/proc/self/status")).stream()
            .filter(line -> line.startsWith("VmRSS:"))
            .findFirst()
            .orElse("0");
    long kilobytes = Long.parseLong(resident.replaceAll("[^0-9]", ""));
    Json json = new Json().put("cpu_seconds", system.getProcessCpuTime() / 1e9);
    json.object().addProperty("rss_bytes", kilobytes * 1024);
    json.object().addProperty("calls", session.calls());
    return json;
  }

  private Json clock(Command command) {
    session.clock().advance(command.duration("advance"));
    return new Json();
  }
}

package io.tollgate;

import io.grpc.Status;
import java.time.Duration;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.BiConsumer;

/**
 * Runs the queued tasks of one device, one at a time, in its own thread: reports the device, runs
 * the task with a keeper, reports the result.
 *
 * <p>If the permit is lost while a handler runs, the thread of the handler is interrupted. A result
 * that the handler still returns is reported, and answered LATE. A handler that throws after the
 * loss reports nothing. The worker also ends when its client is closed.
 */
public final class Worker implements AutoCloseable {
  /** Work of a task. */
  @FunctionalInterface
  public interface Handler {
    /** Runs the task and returns its result. A task whose handler throws is completed as FAILED. */
    byte[] handle(Permit permit) throws Exception;
  }

  /** Options of a worker. */
  public static final class Builder {
    private final Pool pool;
    private final String device;
    private final Handler handler;
    private AdmitOptions options = AdmitOptions.defaults();
    private Duration idlePause = Duration.ofMillis(500);
    private BiConsumer<Permit, CompleteVerdict> onCompleted = (permit, verdict) -> {};
    private BiConsumer<String, Throwable> onError = (task, error) -> {};

    Builder(Pool pool, String device, Handler handler) {
      this.pool = pool;
      this.device = device;
      this.handler = handler;
    }

    /** Sets the length of the leases. Default: that of the pool. */
    public Builder lease(Duration length) {
      options = options.withLease(length);
      return this;
    }

    /** Sets the pause after a report without a task, above zero. Default: 500 ms, with jitter. */
    public Builder idlePause(Duration pause) {
      idlePause = pause;
      return this;
    }

    /** Sets what is called after each reported result, in the thread of the worker. */
    public Builder onCompleted(BiConsumer<Permit, CompleteVerdict> listener) {
      onCompleted = listener;
      return this;
    }

    /**
     * Sets what is called with errors: of a handler with its task, of a report with an empty task.
     */
    public Builder onError(BiConsumer<String, Throwable> listener) {
      onError = listener;
      return this;
    }

    /** Starts the worker. */
    public Worker start() {
      Worker worker = new Worker(this);
      worker.thread.start();
      return worker;
    }
  }

  private final Builder setup;
  private final Thread thread;
  private final Object signal = new Object();
  private final AtomicLong completed = new AtomicLong();
  private boolean stopping;

  private Worker(Builder setup) {
    this.setup = setup;
    this.thread = new Thread(this::loop, "tollgate-worker-" + setup.device);
  }

  /** Returns the number of tasks whose result was reported. */
  public long completed() {
    return completed.get();
  }

  /** Asks the worker to end after the running task; does not wait. */
  public void stop() {
    synchronized (signal) {
      stopping = true;
      signal.notifyAll();
    }
  }

  /** Ends the worker and waits until the running task is completed. */
  @Override
  public void close() {
    stop();
    try {
      thread.join();
    } catch (InterruptedException interrupt) {
      Thread.currentThread().interrupt();
    }
  }

  private void loop() {
    int failures = 0;
    while (running()) {
      try {
        Admission admission = setup.pool.poll(setup.device, setup.options);
        failures = 0;
        if (admission instanceof Admission.Admitted admitted) {
          runTask(admitted.permit());
        } else {
          pause(admission.askAgainAfter().orElse(setup.idlePause));
        }
      } catch (TollgateException failure) {
        setup.onError.accept("", failure);
        if (failure.code() == Status.Code.CANCELLED || setup.pool.clientClosed()) {
          return;
        }
        failures++;
        long told = failure.retryAfter().map(Times::nanos).orElse(0L);
        pause(Duration.ofNanos(told + Calls.backoff(failures)));
      }
    }
  }

  private void runTask(Permit permit) {
    Thread self = Thread.currentThread();
    AtomicBoolean handling = new AtomicBoolean(true);
    var unused =
        permit
            .lost()
            .thenAccept(
                reason -> {
                  synchronized (handling) {
                    if (handling.get()) {
                      self.interrupt();
                    }
                  }
                });
    byte[] result = new byte[0];
    Outcome outcome = Outcome.SUCCEEDED;
    try {
      result = setup.handler.handle(permit);
    } catch (Exception failure) {
      outcome = Outcome.FAILED;
      setup.onError.accept(permit.task(), failure);
    }
    synchronized (handling) {
      handling.set(false);
      Thread.interrupted();
    }
    if (outcome == Outcome.FAILED && permit.isLost()) {
      permit.close();
      return;
    }
    CompleteVerdict verdict = permit.complete(outcome, result);
    completed.incrementAndGet();
    setup.onCompleted.accept(permit, verdict);
  }

  private boolean running() {
    synchronized (signal) {
      return !stopping;
    }
  }

  /** Waits for the given time and up to a fifth more, or until the worker stops. */
  private void pause(Duration length) {
    long nanos = Math.max(1_000_000, Times.nanos(length));
    long end = System.nanoTime() + nanos + ThreadLocalRandom.current().nextLong(nanos / 5 + 1);
    synchronized (signal) {
      try {
        for (long left = end - System.nanoTime(); left > 0 && !stopping; ) {
          signal.wait(left / 1_000_000 + 1);
          left = end - System.nanoTime();
        }
      } catch (InterruptedException interrupt) {
        stopping = true;
        Thread.currentThread().interrupt();
      }
    }
  }
}

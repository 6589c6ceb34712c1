package io.tollgate;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Future;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;

/**
 * A lease on the local clock, with the keeper that renews it.
 *
 * <p>The lease ends locally before it ends at the server: its time counts from before the request,
 * minus a margin. One timer serves both the renewal and the end.
 */
final class Lease {
  /**
   * Answer to a renewal.
   *
   * @param loss null if the lease was extended
   * @param sentNanos reading of the clock before the request
   * @param expiresIn time left at the moment of the decision
   */
  record Renewed(LossReason loss, long sentNanos, Duration expiresIn) {}

  /** Sends a renewal that is repeated until the given reading of the clock. */
  interface Renewal {
    Op<Renewed> send(long stopAt);
  }

  private enum State {
    RUNNING,
    STOPPED,
    LOST
  }

  private static final long MARGIN_MIN_NANOS = 10_000_000L;
  private static final long MARGIN_MAX_NANOS = 1_000_000_000L;

  private final Core core;
  private final CompletableFuture<LossReason> lost = new CompletableFuture<>();
  private Renewal renewal;
  private State state = State.RUNNING;
  private long expiry;
  private long renewAt;
  private Op<Renewed> sent;
  private Future<?> timer;

  /** Creates a lease that ends {@code expiresIn} after the request was sent. */
  Lease(Core core, long sentNanos, Duration expiresIn) {
    this.core = core;
    extend(sentNanos, expiresIn);
  }

  /** Starts the timer, and the keeper if there is a renewal. Called once. */
  synchronized Lease start(Renewal keeper) {
    renewal = keeper;
    core.leases().add(this);
    schedule(core.clock().getAsLong());
    return this;
  }

  /** Returns whether the lease still runs. Reads the clock. */
  synchronized boolean valid() {
    check();
    return state == State.RUNNING;
  }

  synchronized boolean isLost() {
    check();
    return state == State.LOST;
  }

  /** Returns the time left; zero if the lease has ended or was given up. */
  synchronized Duration remaining() {
    check();
    long left = expiry - core.clock().getAsLong();
    return state == State.RUNNING && left > 0 ? Duration.ofNanos(left) : Duration.ZERO;
  }

  /** Returns the reading of the clock at which the lease ends. */
  synchronized long expiry() {
    return expiry;
  }

  CompletionStage<LossReason> lost() {
    return lost.minimalCompletionStage();
  }

  /** Ends the lease for its holder: no renewals, and no report of a loss. */
  synchronized void stop() {
    if (state == State.RUNNING) {
      end(State.STOPPED);
    }
  }

  /** Reports the loss if the lease has ended on the local clock. */
  synchronized void check() {
    if (state == State.RUNNING && core.clock().getAsLong() - expiry >= 0) {
      lose(LossReason.EXPIRED);
    }
  }

  /** Reports the loss, or sends the renewal that is due. */
  synchronized void tick() {
    check();
    if (state != State.RUNNING) {
      return;
    }
    long now = core.clock().getAsLong();
    if (renewal != null && sent == null && now - renewAt >= 0) {
      Op<Renewed> request = renewal.send(expiry);
      sent = request;
      var unused = request.whenComplete((answer, error) -> renewed(request, answer));
    }
    schedule(now);
  }

  private synchronized void renewed(Op<Renewed> request, Renewed answer) {
    if (sent == request) {
      sent = null;
    }
    if (state != State.RUNNING) {
      return;
    }
    long now = core.clock().getAsLong();
    if (answer == null) {
      renewAt = now + Math.max(MARGIN_MIN_NANOS, (expiry - now) / 4);
    } else if (answer.loss() != null) {
      lose(answer.loss());
      return;
    } else {
      extend(answer.sentNanos(), answer.expiresIn());
    }
    check();
    if (state == State.RUNNING) {
      schedule(now);
    }
  }

  private void extend(long sentNanos, Duration expiresIn) {
    long length = Times.nanos(expiresIn);
    long margin = Math.max(MARGIN_MIN_NANOS, Math.min(MARGIN_MAX_NANOS, length / 50));
    expiry = sentNanos + length - margin;
    long third = Math.max(3, length / 3);
    long jitter = ThreadLocalRandom.current().nextLong(-third / 10 - 1, third / 10 + 1);
    renewAt = sentNanos + third + jitter;
  }

  private void schedule(long now) {
    if (timer != null) {
      timer.cancel(false);
    }
    long next = renewal == null || sent != null ? expiry : Math.min(renewAt, expiry);
    try {
      timer = core.timer().schedule(this::tick, Math.max(0, next - now), TimeUnit.NANOSECONDS);
    } catch (RejectedExecutionException closed) {
      core.leases().remove(this);
    }
  }

  private void lose(LossReason reason) {
    end(State.LOST);
    try {
      core.executor().execute(() -> lost.complete(reason));
    } catch (RejectedExecutionException closed) {
      lost.complete(reason);
    }
  }

  private void end(State next) {
    state = next;
    core.leases().remove(this);
    if (timer != null) {
      timer.cancel(false);
      timer = null;
    }
    if (sent != null) {
      sent.cancel(false);
      sent = null;
    }
    renewal = null;
  }
}

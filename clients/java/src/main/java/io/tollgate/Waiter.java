package io.tollgate;

import io.grpc.MethodDescriptor;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.function.BiFunction;
import java.util.function.Function;

/**
 * A request for a lease: a call without a wait, or a wait that is cut into several calls. The next
 * call starts before the running one ends. On the server both belong to one waiter, so its ticket
 * stays in the queue.
 */
final class Waiter<Q, A> {
  /**
   * Lengths of the calls of a wait.
   *
   * @param slice time after which a waiting call is followed by the next one
   * @param overlap how long a waiting call overlaps the next one
   */
  record Lengths(Duration slice, Duration overlap) {
    static final Lengths DEFAULT = new Lengths(Duration.ofSeconds(10), Duration.ofSeconds(5));

    long longest() {
      return slice.plus(overlap).toNanos();
    }
  }

  /**
   * What an answer means.
   *
   * @param lease time left of a granted lease; null without one
   * @param retryAfter when to ask again; null if the call does not wait on
   */
  record Answer(Duration lease, Duration retryAfter) {
    static Answer granted(Duration lease) {
      return new Answer(lease, null);
    }

    static Answer refused(Duration retryAfter) {
      return new Answer(null, retryAfter);
    }

    static Answer other() {
      return new Answer(null, null);
    }
  }

  /**
   * The last answer.
   *
   * @param first the answer to the request
   * @param latest the answer to its repeat, which contains the time left; otherwise the same
   */
  record Granted<A>(Reply<A> first, Reply<A> latest) {}

  /** How long a cancelled wait still accepts an answer that is on its way. */
  private static final long GRACE_MILLIS = 500;

  private final Core core;
  private final MethodDescriptor<Q, A> method;
  private final Q request;
  private final BiFunction<Q, Duration, Q> withWait;
  private final Function<A, Answer> meaning;
  private final Lengths lengths;
  private final Op<Reply<A>> result = new Op<>();
  private final Set<Op<Reply<A>>> running = new HashSet<>();
  private final CompletableFuture<Reply<A>> ended = new CompletableFuture<>();
  private Op<Void> next;
  private boolean decided;
  private long waitUntil;

  /** Reading of the clock at which the waits of all running calls have ended. */
  private volatile long sliceUntil;

  Waiter(
      Core core,
      MethodDescriptor<Q, A> method,
      Q request,
      BiFunction<Q, Duration, Q> withWait,
      Function<A, Answer> meaning) {
    this.core = core;
    this.method = method;
    this.request = request;
    this.withWait = withWait;
    this.meaning = meaning;
    this.lengths = core.waitLengths();
  }

  Op<Granted<A>> send(Duration maxWait) {
    if (maxWait.isZero()) {
      ended.complete(null);
      return core.calls()
          .send(method, CallPlan.SAFE, request)
          .map(reply -> new Granted<>(reply, reply));
    }
    waitUntil = core.clock().getAsLong() + Math.min(Times.nanos(maxWait), Long.MAX_VALUE / 4);
    result.onCancel(this::cancelled);
    start();
    return result.then(this::withTimeLeft);
  }

  /**
   * Completes once all calls of the wait have ended, with the answer if it has a lease, else with
   * null. A cancelled wait cancels its calls after a moment, because an answer that is on its way
   * says which lease the server has granted.
   */
  CompletableFuture<Reply<A>> ended() {
    return ended;
  }

  private void cancelled() {
    boolean running;
    Op<Void> pause;
    synchronized (this) {
      running = decided || !this.running.isEmpty();
      pause = next;
      next = null;
    }
    if (pause != null) {
      pause.cancel(true);
    }
    if (!running) {
      ended.complete(null);
      return;
    }
    try {
      var unused = core.timer().schedule(this::cancelRunning, GRACE_MILLIS, TimeUnit.MILLISECONDS);
    } catch (RejectedExecutionException closed) {
      cancelRunning();
    }
  }

  private void cancelRunning() {
    List<Op<?>> rest;
    synchronized (this) {
      rest = new ArrayList<>(running);
    }
    rest.forEach(call -> call.cancel(true));
  }

  private long left(long until) {
    return Math.max(0, until - core.clock().getAsLong());
  }

  /** Sends a call, and schedules the next one if the wait is longer. */
  private synchronized void start() {
    if (decided || result.isDone()) {
      return;
    }
    long left = left(waitUntil);
    long length = Math.min(left, lengths.longest());
    sliceUntil = core.clock().getAsLong() + length;
    // A retry is the latest call of the waiter, so it waits until the end of the latest slice.
    Op<Reply<A>> call =
        core.calls()
            .sendEach(
                method,
                CallPlan.SAFE.waiting(Duration.ofNanos(length)),
                () -> withWait.apply(request, Duration.ofNanos(left(sliceUntil))));
    running.add(call);
    if (length < left) {
      schedule(lengths.slice().toNanos());
    }
    var unused = call.whenComplete((reply, error) -> ended(call, reply, error));
  }

  /** Schedules the next call; replaces an earlier schedule. */
  private synchronized void schedule(long nanos) {
    Op<Void> pause = core.calls().pauseFor(nanos);
    Op<Void> earlier = next;
    next = pause;
    if (earlier != null) {
      earlier.cancel(true);
    }
    var unused = pause.whenComplete((value, error) -> continued(pause, error));
  }

  private void continued(Op<Void> pause, Throwable error) {
    boolean failed;
    synchronized (this) {
      if (next != pause) {
        return;
      }
      next = null;
      failed = error != null && running.isEmpty() && !decided;
      if (error == null) {
        start();
      }
    }
    if (failed) {
      ended.complete(null);
      result.completeExceptionally(Op.cause(error));
    }
  }

  private void ended(Op<Reply<A>> call, Reply<A> reply, Throwable error) {
    boolean granted = error == null && meaning.apply(reply.answer()).lease() != null;
    boolean cancelled;
    boolean decides;
    boolean reports;
    synchronized (this) {
      running.remove(call);
      cancelled = !decided && result.isDone();
      decides = !decided && !cancelled && decides(reply, error);
      reports = decides || (cancelled && (granted || running.isEmpty()));
      // Done under the lock, because a cancellation must not report that there is no lease before
      // this call does.
      decided |= reports;
    }
    if (decides) {
      end();
    } else if (cancelled && granted) {
      cancelRunning();
    }
    if (reports) {
      ended.complete(granted ? reply : null);
    }
    if (decides && error == null) {
      result.complete(reply);
    } else if (decides) {
      result.completeExceptionally(Op.cause(error));
    }
  }

  /** Returns whether the wait ends with this result. A refusal counts only without other calls. */
  private synchronized boolean decides(Reply<A> reply, Throwable error) {
    Duration retryAfter = error == null ? meaning.apply(reply.answer()).retryAfter() : null;
    boolean isFinal = error == null && retryAfter == null;
    boolean isLast = running.isEmpty() && (error != null || left(waitUntil) == 0);
    decided = isFinal || isLast;
    if (!decided && running.isEmpty()) {
      schedule(pause(reply, retryAfter));
    }
    return decided;
  }

  /**
   * Returns the pause before the next call. A server that has refused immediately, such as one
   * without its store, is asked again after its RetryInfo. After a wait there is no pause.
   */
  private long pause(Reply<A> reply, Duration retryAfter) {
    long took = core.clock().getAsLong() - reply.sentNanos();
    boolean hasWaited = took >= lengths.slice().toNanos() / 2;
    return hasWaited ? 0 : Math.min(left(waitUntil), Times.nanos(retryAfter));
  }

  /** Cancels the calls that still run. */
  private void end() {
    List<Op<?>> rest;
    synchronized (this) {
      rest = new ArrayList<>(running);
      running.clear();
      if (next != null) {
        rest.add(next);
        next = null;
      }
    }
    rest.forEach(call -> call.cancel(true));
  }

  /** Asks again for a lease if its time left is unknown because of the wait. */
  private Op<Granted<A>> withTimeLeft(Reply<A> reply) {
    Answer answer = meaning.apply(reply.answer());
    if (answer.lease() == null || !waited(reply, answer.lease())) {
      return Op.of(new Granted<>(reply, reply));
    }
    return core.calls()
        .send(method, CallPlan.SAFE.at(reply.server()), request)
        .recover(error -> error instanceof TollgateException ? reply : null)
        .map(repeat -> new Granted<>(reply, repeat));
  }

  /** Returns whether the call waited for more than a small part of the lease. */
  private boolean waited(Reply<A> reply, Duration lease) {
    long took = core.clock().getAsLong() - reply.sentNanos();
    return took > Times.nanos(lease) / 50;
  }
}

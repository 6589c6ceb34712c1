package io.tollgate;

import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.StreamObserver;
import java.time.Duration;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Future;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import java.util.function.Supplier;

/**
 * Sends unary calls, with a deadline for each attempt, and repeats them according to their plan.
 */
final class Calls {
  private static final long BACKOFF_NANOS = 100_000_000L;
  private static final long BACKOFF_MAX_NANOS = 2_000_000_000L;

  /** The shortest deadline of an attempt that must leave time for another one. */
  private static final long ATTEMPT_MIN_NANOS = 50_000_000L;

  /**
   * The last twentieth of a deadline: a call that is cancelled in it counts as not answered in
   * time.
   */
  private static final int NEARLY = 20;

  /** The longest RetryInfo that a call waits for; a longer one is left to the caller. */
  private static final Duration RETRY_AFTER_MAX = Duration.ofSeconds(10);

  private final Endpoints endpoints;
  private final RetryBudget budget;
  private final ScheduledExecutorService timer;
  private final LongSupplier clock;
  private final CallOptions options;
  private final Duration deadline;
  private final InFlight inFlight;
  private final Set<Op<?>> running = ConcurrentHashMap.newKeySet();
  private volatile boolean closed;

  Calls(
      Endpoints endpoints,
      RetryBudget budget,
      ScheduledExecutorService timer,
      LongSupplier clock,
      CallOptions options,
      Duration deadline,
      InFlight inFlight) {
    this.inFlight = inFlight;
    this.endpoints = endpoints;
    this.budget = budget;
    this.timer = timer;
    this.clock = clock;
    this.options = options;
    this.deadline = deadline;
  }

  /** Returns the options of calls, without a deadline. */
  CallOptions options() {
    return options;
  }

  long deadlineNanos() {
    return Times.nanos(deadline);
  }

  /** Sends a request that is the same at each attempt. */
  <Q, A> Op<Reply<A>> send(MethodDescriptor<Q, A> method, CallPlan plan, Q request) {
    return sendEach(method, plan, () -> request);
  }

  /** Sends the request that {@code request} returns at each attempt. */
  <Q, A> Op<Reply<A>> sendEach(MethodDescriptor<Q, A> method, CallPlan plan, Supplier<Q> request) {
    budget.called();
    Call<Q, A> call = new Call<>(method, plan, request);
    track(call.result);
    call.attempt();
    return call.result;
  }

  /** Returns a pause that ends with an error when the client is closed. */
  Op<Void> pauseFor(long nanos) {
    Op<Void> pause = new Op<>();
    track(pause);
    try {
      Future<?> end = timer.schedule(() -> pause.complete(null), nanos, TimeUnit.NANOSECONDS);
      pause.onCancel(() -> end.cancel(false));
    } catch (RejectedExecutionException ended) {
      pause.abort(clientClosed());
    }
    return pause;
  }

  /** Ends a call one deadline from now, including its time in the queue. */
  void limit(Op<?> call) {
    try {
      Future<?> end =
          timer.schedule(
              () -> call.abort(new TollgateException(Status.Code.DEADLINE_EXCEEDED, "too late")),
              deadlineNanos(),
              TimeUnit.NANOSECONDS);
      var unused = call.whenComplete((value, error) -> end.cancel(false));
    } catch (RejectedExecutionException ended) {
      call.abort(clientClosed());
    }
  }

  /** Ends all calls and pauses with UNAVAILABLE, and each later one. */
  void close() {
    closed = true;
    running.forEach(op -> op.abort(clientClosed()));
  }

  private void track(Op<?> op) {
    running.add(op);
    var unused = op.whenComplete((value, error) -> running.remove(op));
    if (closed) {
      op.abort(clientClosed());
    }
  }

  private static TollgateException clientClosed() {
    return new TollgateException(Status.Code.UNAVAILABLE, "the client is closed");
  }

  /** Returns the pause before the given retry (1 and up): exponential, with full jitter. */
  static long backoff(int retry) {
    long bound = Math.min(BACKOFF_MAX_NANOS, BACKOFF_NANOS << Math.min(retry - 1, 10));
    return ThreadLocalRandom.current().nextLong(1, bound);
  }

  /** One call with its attempts. */
  private final class Call<Q, A> {
    private final MethodDescriptor<Q, A> method;
    private final CallPlan plan;
    private final Supplier<Q> request;
    private final Op<Reply<A>> result = new Op<>();
    private int attempts;
    private Endpoint last;

    Call(MethodDescriptor<Q, A> method, CallPlan plan, Supplier<Q> request) {
      this.method = method;
      this.plan = plan;
      this.request = request;
    }

    void attempt() {
      boolean waits = !plan.maxWait().isZero();
      if (waits || InFlight.isExempt(method)) {
        attempt(() -> {});
      } else {
        inFlight.acquire(() -> attempt(inFlight::release));
      }
    }

    /** Sends the request, and runs {@code ended} at the end of the attempt. */
    private void attempt(Runnable ended) {
      if (result.isDone()) {
        ended.run();
        return;
      }
      attempts++;
      last = attempts == 1 && plan.server() != null ? plan.server() : endpoints.pick(last);
      TollgateException refusal = last.refusal();
      if (refusal != null) {
        ended.run();
        failed(refusal.forCaller());
        return;
      }
      boolean waits = !plan.maxWait().isZero();
      Endpoint.Line line = waits ? last.waitLine() : last.line();
      long sent = clock.getAsLong();
      long length = length(sent);
      try {
        ClientCall<Q, A> attempt =
            line.channel().newCall(method, options.withDeadlineAfter(length, TimeUnit.NANOSECONDS));
        result.onCancel(() -> attempt.cancel("cancelled by the caller", null));
        long nearEnd = sent + length - length / NEARLY;
        Answer answer = new Answer(last, line, sent, nearEnd, ended);
        ClientCalls.asyncUnaryCall(attempt, request.get(), answer);
      } catch (RuntimeException failure) {
        line.release();
        ended.run();
        result.completeExceptionally(TollgateException.from(failure));
      }
    }

    /** Returns the deadline of an attempt in nanoseconds. */
    private long length(long now) {
      long length = Times.nanos(plan.maxWait().plus(deadline.multipliedBy(plan.deadlines())));
      if (plan.stopAt() != Long.MAX_VALUE) {
        long half = Math.max(ATTEMPT_MIN_NANOS, (plan.stopAt() - now) / 2);
        length = Math.min(length, half);
      }
      return length;
    }

    private void failed(TollgateException error) {
      if (result.isDone()) {
        return;
      }
      long pause = pause(error);
      boolean late = plan.stopAt() != Long.MAX_VALUE && clock.getAsLong() + pause >= plan.stopAt();
      if (pause < 0 || late || (plan.budgeted() && !budget.take())) {
        result.completeExceptionally(error);
        return;
      }
      Endpoint server = last;
      try {
        Future<?> next =
            timer.schedule(
                () -> {
                  server.reconnect();
                  attempt();
                },
                pause,
                TimeUnit.NANOSECONDS);
        result.onCancel(() -> next.cancel(false));
      } catch (RejectedExecutionException closed) {
        result.completeExceptionally(error);
      }
    }

    /** Returns the pause before the next attempt; below 0 if there is none. */
    private long pause(TollgateException error) {
      Duration told = error.retryAfter().orElse(Duration.ZERO);
      boolean transientError =
          error.code() == Status.Code.UNAVAILABLE
              || error.code() == Status.Code.DEADLINE_EXCEEDED
              || (error.code() == Status.Code.RESOURCE_EXHAUSTED && !told.isZero());
      boolean again = transientError && plan.repeatable() && attempts < plan.attempts();
      if (!again || told.compareTo(RETRY_AFTER_MAX) > 0) {
        return -1;
      }
      return Times.nanos(told) + backoff(attempts);
    }

    private final class Answer implements StreamObserver<A> {
      private final Endpoint server;
      private final Endpoint.Line line;
      private final long sent;
      private final long nearEnd;
      private final Runnable ended;
      private A message;

      Answer(Endpoint server, Endpoint.Line line, long sent, long nearEnd, Runnable ended) {
        this.server = server;
        this.line = line;
        this.sent = sent;
        this.nearEnd = nearEnd;
        this.ended = ended;
      }

      @Override
      public void onNext(A value) {
        message = value;
      }

      @Override
      public void onError(Throwable error) {
        line.release();
        ended.run();
        TollgateException failure = TollgateException.from(error);
        // A limiter that decides after one deadline cancels the call just before.
        boolean cancelled = failure.code() == Status.Code.CANCELLED;
        if (failure.code() == Status.Code.DEADLINE_EXCEEDED
            || (cancelled && clock.getAsLong() >= nearEnd)) {
          endpoints.late(server);
        } else {
          server.failed(failure);
        }
        failed(failure);
      }

      @Override
      public void onCompleted() {
        line.release();
        ended.run();
        server.answered();
        result.complete(new Reply<>(message, sent, server));
      }
    }
  }
}

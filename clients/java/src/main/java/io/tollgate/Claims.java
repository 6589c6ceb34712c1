package io.tollgate;

import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.time.Duration;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Supplier;

/**
 * The calls for leases of one client, by the identity of the lease. All calls with the same
 * identity get the same lease, so a lease is given up only if no other call has received it or may
 * receive it.
 */
final class Claims {
  private static final int TRIES = 20;
  private static final long PAUSE_NANOS = 100_000_000L;
  private static final long PAUSE_MAX_NANOS = 30_000_000_000L;

  /**
   * A granted lease, as a cancelled call learns about it.
   *
   * @param token null for the unknown token of a call whose identity no other call has
   * @param replayed whether an earlier call was granted it
   * @param task the task of a slot
   * @param left the time left
   */
  record Grant(Long token, boolean replayed, String task, Duration left) {}

  /** Tries to give up a lease until the given reading of the clock; completes when it has ended. */
  interface GiveUp {
    CompletableFuture<?> run(Grant grant, long until);
  }

  /** The calls for one lease. */
  private static final class Entry {
    /** Calls whose caller waits for the answer, and cancelled calls that have not ended. */
    int calls;

    int cancelled;

    /** Tokens that calls were granted, and tokens that callers have received. */
    final Set<Long> granted = new HashSet<>();

    final Set<Long> given = new HashSet<>();
    Ending ending;
  }

  /** A lease that is being given up. */
  private static final class Ending {
    final CompletableFuture<Void> done = new CompletableFuture<>();

    /** Completed to make the last attempt immediately. */
    final CompletableFuture<Void> hurry = new CompletableFuture<>();
  }

  private final Core core;
  private final Map<String, Entry> entries = new HashMap<>();

  Claims(Core core) {
    this.core = core;
  }

  /** Returns the identity of a lease. */
  static String key(String... parts) {
    return String.join("\0", parts);
  }

  /** Registers a call. If the lease is being given up, makes a last attempt to do so. */
  CompletableFuture<Claim> enter(String key) {
    return settle(key, 1).thenApply(settled -> new Claim(key));
  }

  /** Makes a last attempt to give up a lease, if it is being given up. */
  CompletableFuture<Void> settle(String key) {
    return settle(key, 0);
  }

  private CompletableFuture<Void> settle(String key, int calls) {
    Ending running;
    synchronized (this) {
      Entry entry = entries.computeIfAbsent(key, k -> new Entry());
      running = entry.ending;
      if (running == null) {
        entry.calls += calls;
        tidy(key, entry);
        return CompletableFuture.completedFuture(null);
      }
    }
    running.hurry.complete(null);
    return running.done.thenCompose(done -> settle(key, calls));
  }

  private void tidy(String key, Entry entry) {
    if (entry.calls + entry.cancelled == 0 && entry.ending == null) {
      entries.remove(key, entry);
    }
  }

  private synchronized void update(String key, Consumer<Entry> change) {
    Entry entry = entries.computeIfAbsent(key, k -> new Entry());
    change.accept(entry);
    tidy(key, entry);
  }

  /**
   * Gives up a lease when its scope is left. Returns the answer, or fails with DEADLINE_EXCEEDED
   * after the deadline of one call; further attempts then follow in the background until the lease
   * ends.
   */
  <Q, A> A leave(String key, long until, MethodDescriptor<Q, A> method, CallPlan plan, Q request) {
    Ending ending = new Ending();
    update(key, entry -> entry.ending = ending);
    Op<A> tries = giveUp(ending, until, method, plan, request);
    var unused = tries.whenComplete((answer, error) -> end(key, ending));
    return Op.awaitWithin(tries, core.calls().deadlineNanos());
  }

  private void end(String key, Ending ending) {
    update(
        key,
        entry -> {
          if (entry.ending == ending) {
            entry.ending = null;
          }
        });
    ending.done.complete(null);
  }

  /** Makes a call until it is answered. Without an answer, the lease ends by itself. */
  <Q, A> Op<A> giveUp(long until, MethodDescriptor<Q, A> method, CallPlan plan, Q request) {
    return giveUp(new Ending(), until, method, plan, request);
  }

  private <Q, A> Op<A> giveUp(
      Ending ending, long until, MethodDescriptor<Q, A> method, CallPlan plan, Q request) {
    Op<A> result = new Op<>();
    attempt(1, ending, until, () -> core.calls().send(method, plan, request), result);
    return result;
  }

  private <A> void attempt(
      int number, Ending ending, long until, Supplier<Op<Reply<A>>> call, Op<A> result) {
    var unused =
        call.get()
            .whenComplete(
                (reply, error) -> {
                  if (error == null) {
                    result.complete(reply.answer());
                    return;
                  }
                  long pause = pause(number, ending, until, Op.cause(error));
                  if (pause < 0) {
                    result.completeExceptionally(Op.cause(error));
                    return;
                  }
                  Op<Void> idle = core.calls().pauseFor(pause);
                  wake(ending, idle);
                  next(idle, () -> attempt(number + 1, ending, until, call, result), result);
                });
  }

  /** Runs {@code next} after a pause; fails {@code result} if the client is closed meanwhile. */
  private static void next(Op<Void> idle, Runnable next, Op<?> result) {
    var unused =
        idle.whenComplete(
            (value, closed) -> {
              if (closed == null) {
                next.run();
              } else {
                result.completeExceptionally(Op.cause(closed));
              }
            });
  }

  private static void wake(Ending ending, Op<Void> idle) {
    var unused = ending.hurry.thenRun(() -> idle.complete(null));
  }

  /** Returns the pause before the next attempt; below 0 if there is none. */
  private long pause(int number, Ending ending, long until, Throwable error) {
    if (!(error instanceof TollgateException failure) || ending.hurry.isDone()) {
      return -1;
    }
    Duration told = failure.retryAfter().orElse(Duration.ZERO);
    boolean again =
        failure.code() == Status.Code.UNAVAILABLE
            || failure.code() == Status.Code.DEADLINE_EXCEEDED
            || (failure.code() == Status.Code.RESOURCE_EXHAUSTED && !told.isZero());
    long bound = Math.min(PAUSE_MAX_NANOS, PAUSE_NANOS << Math.min(number, 10));
    long pause = Times.nanos(told) + ThreadLocalRandom.current().nextLong(bound / 2, bound);
    boolean late = core.clock().getAsLong() + pause - until >= 0;
    return again && number < TRIES && !late ? pause : -1;
  }

  /** One call for a lease. */
  final class Claim {
    private final String key;

    private Claim(String key) {
      this.key = key;
    }

    /**
     * Follows the result of the call. If the caller gets none, the lease is given up once the call
     * has ended, unless another call has received it or may receive it.
     *
     * @param token token of the lease in a result; null without a lease
     * @param ended lease that the call was granted, null without one; completes once it has ended
     */
    <T> void follow(
        CompletableFuture<T> result,
        Function<T, Long> token,
        CompletableFuture<Grant> ended,
        GiveUp giveUp) {
      var unused =
          result.whenComplete(
              (value, error) -> {
                if (error == null) {
                  answered(token.apply(value));
                } else {
                  withdraw(ended, giveUp);
                }
              });
    }

    private void answered(Long token) {
      update(
          key,
          entry -> {
            entry.calls--;
            if (token != null) {
              entry.given.add(token);
            }
          });
    }

    private void withdraw(CompletableFuture<Grant> ended, GiveUp giveUp) {
      update(
          key,
          entry -> {
            entry.calls--;
            entry.cancelled++;
          });
      var unused = ended.whenComplete((grant, error) -> ended(grant, giveUp));
    }

    private void ended(Grant grant, GiveUp giveUp) {
      Ending ending = new Ending();
      update(
          key,
          entry -> {
            entry.cancelled--;
            if (grant == null) {
              return;
            }
            if (!grant.replayed()) {
              entry.granted.add(grant.token());
            }
            boolean own = entry.granted.contains(grant.token());
            if (own && entry.calls == 0 && !entry.given.contains(grant.token())) {
              entry.ending = ending;
            } else {
              ending.done.complete(null);
            }
          });
      if (grant == null || ending.done.isDone()) {
        return;
      }
      long until = core.clock().getAsLong() + Times.nanos(grant.left());
      var unused = giveUp.run(grant, until).whenComplete((value, error) -> end(key, ending));
    }
  }
}

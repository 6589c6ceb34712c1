package io.tollgate;

import io.tollgate.v1.AcquireLockRequest;
import io.tollgate.v1.AcquireLockResponse;
import io.tollgate.v1.GetLockRequest;
import io.tollgate.v1.LockServiceGrpc;
import java.time.Duration;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;

/** A lock: one owner at a time, for the length of a lease. It needs no creation. */
public final class Lock {
  private final Core core;
  private final String name;

  Lock(Core core, String name) {
    this.core = core;
    this.name = name;
  }

  /** Asks for the lock with the default options. */
  public LockResult acquire() {
    return acquire(LockOptions.defaults());
  }

  /** Asks for the lock. An owner that holds it gets its lease again. */
  public LockResult acquire(LockOptions options) {
    return Op.await(acquireAsync(options));
  }

  /** Asks for the lock without blocking. Cancel the future to leave the queue. */
  public CompletableFuture<LockResult> acquireAsync(LockOptions options) {
    var request =
        AcquireLockRequest.newBuilder()
            .setName(name)
            .setOwner(options.owner().orElseGet(() -> UUID.randomUUID().toString()));
    options.lease().ifPresent(length -> request.setLeaseDuration(Times.proto(length)));
    Waiter<AcquireLockRequest, AcquireLockResponse> waiter =
        new Waiter<>(
            core,
            LockServiceGrpc.getAcquireLockMethod(),
            request.build(),
            (message, wait) -> message.toBuilder().setMaxWait(Times.proto(wait)).build(),
            answer ->
                switch (answer.getOutcome()) {
                  case ACQUIRE_LOCK_OUTCOME_ACQUIRED ->
                      Waiter.Answer.granted(Times.duration(answer.getLease().getExpiresIn()));
                  case ACQUIRE_LOCK_OUTCOME_HELD ->
                      Waiter.Answer.refused(Times.duration(answer.getRetryAfter()));
                  default -> Waiter.Answer.other();
                });
    return waiter.send(options.maxWait()).map(granted -> result(options, granted));
  }

  /** Returns the holder and the number of waiting calls. */
  public LockStatus status() {
    var request = GetLockRequest.newBuilder().setName(name).build();
    var answer =
        Op.await(core.calls().send(LockServiceGrpc.getGetLockMethod(), CallPlan.SAFE, request))
            .answer();
    return new LockStatus(
        answer.getHeld(),
        answer.getLease().getOwner(),
        answer.getLease().getFencingToken(),
        answer.getWaiters());
  }

  private LockResult result(LockOptions options, Waiter.Granted<AcquireLockResponse> granted) {
    AcquireLockResponse answer = granted.latest().answer();
    return switch (answer.getOutcome()) {
      case ACQUIRE_LOCK_OUTCOME_ACQUIRED ->
          new LockResult.Acquired(
              new HeldLock(
                  core,
                  answer.getLease(),
                  granted.latest().sentNanos(),
                  granted.first().answer().getReplayed(),
                  options));
      case ACQUIRE_LOCK_OUTCOME_HELD -> {
        Duration retryAfter = Times.duration(answer.getRetryAfter());
        yield new LockResult.Held(answer.getHolder(), retryAfter);
      }
      default ->
          throw TollgateException.unknownAnswer("AcquireLockOutcome " + answer.getOutcomeValue());
    };
  }
}

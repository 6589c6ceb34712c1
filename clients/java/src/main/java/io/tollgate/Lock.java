package io.tollgate;

import io.tollgate.v1.AcquireLockRequest;
import io.tollgate.v1.AcquireLockResponse;
import io.tollgate.v1.GetLockRequest;
import io.tollgate.v1.LockLease;
import io.tollgate.v1.LockServiceGrpc;
import io.tollgate.v1.ReleaseLockRequest;
import io.tollgate.v1.ReleaseLockResponse;
import java.time.Duration;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;

/** A lock: one owner at a time, for the length of a lease. It needs no creation. */
public final class Lock {
  /** Length of a lease by default. */
  private static final Duration LEASE = Duration.ofSeconds(30);

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

  /**
   * Asks for the lock without blocking. Cancel the future to leave the queue. A lock that the call
   * may have acquired is then released in the background; with an owner of the caller only if its
   * wait has just ended.
   */
  public CompletableFuture<LockResult> acquireAsync(LockOptions options) {
    String owner = options.owner().orElseGet(() -> UUID.randomUUID().toString());
    var request = AcquireLockRequest.newBuilder().setName(name).setOwner(owner);
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
    Op<LockResult> outcome = new Op<>();
    var unused =
        core.claims()
            .enter(Claims.key("lock", name, owner))
            .thenAccept(
                claim -> {
                  claim.follow(
                      outcome,
                      result -> result.acquired().map(HeldLock::token).orElse(null),
                      waiter.ended().thenApply(reply -> granted(options, reply)),
                      (grant, until) -> release(owner, grant, until));
                  outcome.take(
                      waiter.send(options.maxWait()),
                      granted -> result(options, granted),
                      result -> result.acquired().ifPresent(HeldLock::abandon));
                });
    return outcome;
  }

  /** Returns the lease in the last answer of a failed call. */
  private static Claims.Grant granted(LockOptions options, Reply<AcquireLockResponse> reply) {
    if (reply == null) {
      // Nobody else has a default owner, so it may hold the lock even without an answer.
      return options.owner().isPresent()
          ? null
          : new Claims.Grant(null, false, "", options.lease().orElse(LEASE));
    }
    LockLease lease = reply.answer().getLease();
    Duration left = Times.duration(lease.getExpiresIn());
    return new Claims.Grant(lease.getFencingToken(), reply.answer().getReplayed(), "", left);
  }

  private Op<ReleaseLockResponse> release(String owner, Claims.Grant grant, long until) {
    var request = ReleaseLockRequest.newBuilder().setName(name).setOwner(owner);
    if (grant.token() != null) {
      request.setFencingToken(grant.token());
    }
    return core.claims()
        .giveUp(until, LockServiceGrpc.getReleaseLockMethod(), CallPlan.ONCE, request.build());
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

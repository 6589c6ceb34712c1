package io.tollgate;

import io.tollgate.v1.LockLease;
import io.tollgate.v1.LockServiceGrpc;
import io.tollgate.v1.ReleaseLockRequest;
import io.tollgate.v1.RenewLockOutcome;
import io.tollgate.v1.RenewLockRequest;
import java.time.Duration;
import java.util.concurrent.CompletionStage;

/**
 * A held lock, until {@link #lost()}. A keeper renews its lease. Closing it releases the lock. Safe
 * for several threads.
 */
public final class HeldLock implements AutoCloseable {
  private final Core core;
  private final LockLease granted;
  private final boolean replayed;
  private final Lease lease;
  private boolean released;

  HeldLock(Core core, LockLease granted, long sentNanos, boolean replayed, LockOptions options) {
    this.core = core;
    this.granted = granted;
    this.replayed = replayed;
    this.lease = new Lease(core, sentNanos, Times.duration(granted.getExpiresIn()));
    lease.start(options.keeper() ? stopAt -> renew(options, stopAt) : null);
  }

  /** Returns the name of the lock. */
  public String name() {
    return granted.getName();
  }

  /** Returns the owner. */
  public String owner() {
    return granted.getOwner();
  }

  /** Returns the fencing token as an unsigned number: higher than every earlier one of the lock. */
  public long token() {
    return granted.getFencingToken();
  }

  /** Returns whether an earlier call was granted this lease. */
  public boolean replayed() {
    return replayed;
  }

  /** Returns whether the lock is held: neither lost nor released. Reads the clock. */
  public boolean valid() {
    return lease.valid();
  }

  /** Returns whether the lock is lost. Reads the clock. */
  public boolean isLost() {
    return lease.isLost();
  }

  /** Returns the time until the lease ends unless renewed; zero if the lock is not valid. */
  public Duration remaining() {
    return lease.remaining();
  }

  /** Completes when the lock is lost, before the lease ends at the server. */
  public CompletionStage<LossReason> lost() {
    return lease.lost();
  }

  /** Releases the lock. Can be repeated. */
  public ReleaseOutcome release() {
    lease.stop();
    var reply =
        Op.await(
            core.calls().send(LockServiceGrpc.getReleaseLockMethod(), CallPlan.SAFE, request()));
    synchronized (this) {
      released = true;
    }
    return Enums.of(ReleaseOutcome.class, "RELEASE_LOCK_OUTCOME_", reply.answer().getOutcome());
  }

  private ReleaseLockRequest request() {
    return ReleaseLockRequest.newBuilder()
        .setName(granted.getName())
        .setOwner(granted.getOwner())
        .setFencingToken(granted.getFencingToken())
        .build();
  }

  /** Stops the keeper of a lock that no caller has received. */
  void abandon() {
    lease.stop();
  }

  /**
   * Releases the lock unless it was released. Takes at most the deadline of one call: without an
   * answer the release continues in the background until the lease ends.
   */
  @Override
  public void close() {
    synchronized (this) {
      if (released) {
        return;
      }
      released = true;
    }
    lease.stop();
    boolean interrupted = Thread.interrupted();
    try {
      var unused =
          core.claims()
              .leave(
                  Claims.key("lock", granted.getName(), granted.getOwner()),
                  lease.expiry(),
                  LockServiceGrpc.getReleaseLockMethod(),
                  CallPlan.ONCE,
                  request());
    } catch (TollgateException unreleased) {
      return;
    } finally {
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }

  private Op<Lease.Renewed> renew(LockOptions options, long stopAt) {
    RenewLockRequest.Builder request =
        RenewLockRequest.newBuilder()
            .setName(granted.getName())
            .setOwner(granted.getOwner())
            .setFencingToken(granted.getFencingToken());
    options.lease().ifPresent(length -> request.setLeaseDuration(Times.proto(length)));
    return core.calls()
        .send(LockServiceGrpc.getRenewLockMethod(), CallPlan.SAFE.until(stopAt), request.build())
        .map(
            reply ->
                new Lease.Renewed(
                    reply.answer().getOutcome() == RenewLockOutcome.RENEW_LOCK_OUTCOME_RENEWED
                        ? null
                        : LossReason.NOT_HELD,
                    reply.sentNanos(),
                    Times.duration(reply.answer().getLease().getExpiresIn())));
  }
}

package io.tollgate;

import com.google.protobuf.ByteString;
import io.tollgate.v1.AdmissionServiceGrpc;
import io.tollgate.v1.CompleteTaskRequest;
import io.tollgate.v1.RenewTaskRequest;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;

/**
 * The right to run one task in a pool, until {@link #lost()}.
 *
 * <p>A keeper renews the lease at a third of its length. Safe for use by several threads.
 *
 * <pre>{@code
 * try (Permit permit = admitted.permit()) {
 *   permit.run(p -> transfer());
 *   permit.complete(Outcome.SUCCEEDED);
 * }
 * }</pre>
 */
public final class Permit implements AutoCloseable {
  /** Work that needs a permit. */
  @FunctionalInterface
  public interface Body<E extends Exception> {
    /** Runs the work. */
    void run(Permit permit) throws E;
  }

  private static final byte[] NOTHING = {};

  private final Core core;
  private final io.tollgate.v1.Lease granted;
  private final Lease lease;
  private final boolean replayed;
  private final ByteString payload;
  private final int attempt;
  private final Endpoint server;
  private final String key;
  private CompletableFuture<CompleteVerdict> completion;

  Permit(Core core, Admitter.Grant grant, AdmitOptions options) {
    this.core = core;
    this.granted = grant.lease();
    this.replayed = grant.replayed();
    this.payload = grant.payload();
    this.attempt = grant.attempt();
    this.server = grant.server();
    this.key = grant.key();
    this.lease = new Lease(core, grant.sentNanos(), Times.duration(granted.getExpiresIn()));
    lease.start(options.keeper() ? stopAt -> renew(options, stopAt) : null);
  }

  /** Returns the pool. */
  public String pool() {
    return granted.getPool();
  }

  /** Returns the device that holds the permit. */
  public String device() {
    return granted.getDeviceId();
  }

  /** Returns the task. */
  public String task() {
    return granted.getTaskId();
  }

  /**
   * Returns the fencing token as an unsigned 64-bit number: higher than every earlier token of the
   * pool. Let the external system reject lower ones.
   */
  public long token() {
    return granted.getFencingToken();
  }

  /** Returns whether an earlier call was granted this lease. */
  public boolean replayed() {
    return replayed;
  }

  /**
   * Returns whether a fallback of one server granted the permit, because the store was unreachable.
   * Renewals and the result go to that server first.
   */
  public boolean degraded() {
    return server != null;
  }

  /** Returns the payload of a queued task; empty if the task was not queued. */
  public byte[] payload() {
    return payload.toByteArray();
  }

  /** Returns the number of dispatches of a queued task, from 1; 0 if the task was not queued. */
  public int attempt() {
    return attempt;
  }

  /** Returns whether the task may run: not lost, not completed, not closed. Reads the clock. */
  public boolean valid() {
    return lease.valid();
  }

  /** Returns whether the permit is lost. Reads the clock. */
  public boolean isLost() {
    return lease.isLost();
  }

  /** Returns the time until the permit ends unless renewed; zero if it is not valid. */
  public Duration remaining() {
    return lease.remaining();
  }

  /**
   * Completes when the permit is lost, before the lease ends at the server. Stop the task then. It
   * never completes for a permit that was completed or closed before.
   */
  public CompletionStage<LossReason> lost() {
    return lease.lost();
  }

  /** Reports the outcome without a result, as {@link #complete(Outcome, byte[])} does. */
  public CompleteVerdict complete(Outcome outcome) {
    return complete(outcome, NOTHING);
  }

  /**
   * Reports the result, at most 65,536 bytes, and stops the keeper. Waits until the verdict is
   * known, through restarts of the server and even after the permit is lost. An interrupt ends the
   * wait with CANCELLED. A second call returns the verdict of the first one.
   */
  public CompleteVerdict complete(Outcome outcome, byte[] result) {
    return Op.await(completeAsync(outcome, result));
  }

  /** Reports the result as {@link #complete(Outcome, byte[])} does, without waiting. */
  public CompletableFuture<CompleteVerdict> completeAsync(Outcome outcome, byte[] result) {
    synchronized (this) {
      if (completion != null && !completion.isCompletedExceptionally()) {
        return completion;
      }
      lease.stop();
      completion =
          core.calls()
              .send(
                  AdmissionServiceGrpc.getCompleteTaskMethod(),
                  CallPlan.UNTIL_ANSWERED.at(server),
                  message(outcome, result))
              .map(reply -> Verdicts.complete(reply.answer()));
      return completion;
    }
  }

  private CompleteTaskRequest message(Outcome outcome, byte[] result) {
    return CompleteTaskRequest.newBuilder()
        .setPool(granted.getPool())
        .setDeviceId(granted.getDeviceId())
        .setTaskId(granted.getTaskId())
        .setFencingToken(granted.getFencingToken())
        .setOutcome(Verdicts.outcome(outcome))
        .setResult(ByteString.copyFrom(result))
        .build();
  }

  /**
   * Runs the body. If it throws before it has reported a result, the task is completed as FAILED.
   * Closes the permit at the end. An error of that report is added to the exception of the body.
   *
   * <p>If no server answers, the exception is thrown after the deadline of one call. The report
   * then continues in the background until the lease ends.
   */
  public <E extends Exception> void run(Body<E> body) throws E {
    try {
      body.run(this);
    } catch (Throwable failure) {
      reportFailure(failure);
      throw failure;
    } finally {
      close();
    }
  }

  private void reportFailure(Throwable failure) {
    synchronized (this) {
      if (completion != null) {
        return;
      }
    }
    boolean interrupted = Thread.interrupted();
    try {
      lease.stop();
      var unused =
          core.claims()
              .leave(
                  key,
                  lease.expiry(),
                  AdmissionServiceGrpc.getCompleteTaskMethod(),
                  CallPlan.ONCE.at(server),
                  message(Outcome.FAILED, NOTHING));
    } catch (TollgateException unreported) {
      failure.addSuppressed(unreported);
    } finally {
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }

  /** Stops the keeper. Without a result the lease ends at its expiry. */
  @Override
  public void close() {
    lease.stop();
  }

  private Op<Lease.Renewed> renew(AdmitOptions options, long stopAt) {
    RenewTaskRequest.Builder request =
        RenewTaskRequest.newBuilder()
            .setPool(granted.getPool())
            .setDeviceId(granted.getDeviceId())
            .setTaskId(granted.getTaskId())
            .setFencingToken(granted.getFencingToken());
    options.lease().ifPresent(length -> request.setLeaseDuration(Times.proto(length)));
    CallPlan plan = CallPlan.SAFE.until(stopAt).at(server);
    return core.calls()
        .send(AdmissionServiceGrpc.getRenewTaskMethod(), plan, request.build())
        .map(
            reply ->
                new Lease.Renewed(
                    Verdicts.loss(reply.answer().getVerdict()),
                    reply.sentNanos(),
                    Times.duration(reply.answer().getLease().getExpiresIn())));
  }
}

package io.tollgate;

import io.grpc.Status;
import io.tollgate.v1.CheckRateRequest;
import io.tollgate.v1.CheckRateResponse;
import io.tollgate.v1.RateServiceGrpc;
import io.tollgate.v1.Rule;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;

/**
 * Checks calls against a policy or a rule. Immutable and safe for several threads.
 *
 * <p>Without a failure policy, a check that could not be decided throws. With one, it has 2
 * attempts instead of 8, and one deadline for both, including the time in the queue. Then
 * UNAVAILABLE, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, INTERNAL and UNKNOWN become a decision. With
 * {@link #failOpen}, so do configuration mistakes, such as an unknown policy, which are otherwise
 * thrown. A bad key is always thrown. Decisions without the server are logged by the logger {@code
 * io.tollgate}, at most once in 10 s for each policy.
 */
public final class RateLimiter {
  private enum OnFailure {
    THROW,
    OPEN,
    CLOSED
  }

  private static final int ATTEMPTS_WITH_FALLBACK = 2;

  private final Core core;
  private final CheckRateRequest against;
  private final OnFailure onFailure;

  RateLimiter(Core core, String policy) {
    this(core, CheckRateRequest.newBuilder().setPolicy(policy).build(), OnFailure.THROW);
  }

  RateLimiter(Core core, Rule rule) {
    this(core, CheckRateRequest.newBuilder().setRule(rule).build(), OnFailure.THROW);
  }

  private RateLimiter(Core core, CheckRateRequest against, OnFailure onFailure) {
    this.core = core;
    this.against = against;
    this.onFailure = onFailure;
  }

  /** Returns this limiter with the failure policy to allow calls that could not be decided. */
  public RateLimiter failOpen() {
    return new RateLimiter(core, against, OnFailure.OPEN);
  }

  /** Returns this limiter with the failure policy to refuse calls that could not be decided. */
  public RateLimiter failClosed() {
    return new RateLimiter(core, against, OnFailure.CLOSED);
  }

  /** Counts a call of cost 1 and decides whether it may pass. */
  public RateDecision check(String key) {
    return check(key, 1);
  }

  /**
   * Counts a call and decides whether it may pass. The cost is 0 to 1,000,000,000; with 0 nothing
   * is counted. A new request id makes retries safe.
   */
  public RateDecision check(String key, long cost) {
    return check(key, cost, UUID.randomUUID().toString());
  }

  /** Checks with a request id of the caller: a repeat within 5 minutes gets the first answer. */
  public RateDecision check(String key, long cost, String requestId) {
    return Op.await(checkAsync(key, cost, requestId));
  }

  /** Checks with cost 1 and a new request id, without blocking. */
  public CompletableFuture<RateDecision> checkAsync(String key) {
    return checkAsync(key, 1, UUID.randomUUID().toString());
  }

  /** Checks without blocking. */
  public CompletableFuture<RateDecision> checkAsync(String key, long cost, String requestId) {
    if (requestId.isEmpty()) {
      throw new IllegalArgumentException("the request id is empty");
    }
    CheckRateRequest request =
        against.toBuilder().setKey(key).setCost(cost).setRequestId(requestId).build();
    CallPlan plan =
        onFailure == OnFailure.THROW
            ? CallPlan.SAFE
            : CallPlan.SAFE.attempts(ATTEMPTS_WITH_FALLBACK);
    Op<Reply<CheckRateResponse>> call =
        core.calls().send(RateServiceGrpc.getCheckRateMethod(), plan, request);
    if (onFailure != OnFailure.THROW) {
      core.calls().limit(call);
    }
    Op<RateDecision> decision = call.map(reply -> RateDecision.of(reply.answer()));
    return decision.recover(this::decide);
  }

  private RateDecision decide(Throwable error) {
    if (error instanceof TollgateException failure && decides(failure.code())) {
      boolean open = onFailure == OnFailure.OPEN;
      log("the call " + (open ? "passes (fail open)" : "is refused (fail closed)"), failure);
      return RateDecision.undecided(open, failure);
    }
    return null;
  }

  /**
   * Logs that a check was not decided, and what happens to its call, at most once in 10 s. For
   * middlewares.
   */
  public void log(String effect, TollgateException failure) {
    core.checks().undecided(against.hasRule() ? "a rule" : against.getPolicy(), effect, failure);
  }

  /**
   * Returns whether the failure policy decides. A bad request has a key that its caller chose, so
   * it passes no limiter.
   */
  private boolean decides(Status.Code code) {
    return switch (onFailure) {
      case THROW -> false;
      case OPEN -> code != Status.Code.INVALID_ARGUMENT && code != Status.Code.CANCELLED;
      case CLOSED -> undecided(code);
    };
  }

  private static boolean undecided(Status.Code code) {
    return switch (code) {
      case UNAVAILABLE, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, INTERNAL, UNKNOWN -> true;
      default -> false;
    };
  }
}

package io.tollgate;

import io.tollgate.v1.CheckRateResponse;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * Answer to a rate check.
 *
 * @param allowed whether the call may pass
 * @param verdict the verdict; empty if the failure policy of the limiter decided
 * @param limits the limits of the rule in its order, including this call
 * @param crossed true on one call per tier and window: send a notice now
 * @param retryAfter time until the same call passes; present on a refusal
 * @param ban the running ban; present if the key is banned
 * @param replayed whether an earlier call with this request id got this answer
 * @param degraded whether the store or the server was unreachable, and a fallback decided
 * @param failure the error, if the failure policy of the limiter decided
 */
public record RateDecision(
    boolean allowed,
    Optional<RateVerdict> verdict,
    List<LimitStatus> limits,
    boolean crossed,
    Optional<Duration> retryAfter,
    Optional<BanStatus> ban,
    boolean replayed,
    boolean degraded,
    Optional<TollgateException> failure) {
  private static final Duration FAILURE_RETRY_AFTER = Duration.ofSeconds(1);

  /**
   * Returns the headers of an HTTP answer, by lower-case name: {@code ratelimit} and {@code
   * ratelimit-policy} of draft-ietf-httpapi-ratelimit-headers, and {@code retry-after} on a
   * refusal.
   */
  public Map<String, String> headers() {
    return RateHeaders.of(this);
  }

  static RateDecision of(CheckRateResponse answer) {
    return new RateDecision(
        answer.getAllowed(),
        Optional.of(Enums.of(RateVerdict.class, "RATE_VERDICT_", answer.getVerdict())),
        answer.getLimitsList().stream().map(LimitStatus::of).toList(),
        answer.getCrossed(),
        answer.hasRetryAfter()
            ? Optional.of(Times.duration(answer.getRetryAfter()))
            : Optional.empty(),
        answer.hasBan() ? Optional.of(BanStatus.of(answer.getBan())) : Optional.empty(),
        answer.getReplayed(),
        answer.getDegraded(),
        Optional.empty());
  }

  static RateDecision undecided(boolean allowed, TollgateException failure) {
    Duration pause = failure.retryAfter().orElse(FAILURE_RETRY_AFTER);
    return new RateDecision(
        allowed,
        Optional.empty(),
        List.of(),
        false,
        allowed ? Optional.empty() : Optional.of(pause),
        Optional.empty(),
        false,
        true,
        Optional.of(failure));
  }
}

package io.tollgate;

import java.util.List;
import java.util.Optional;

/**
 * A key under a policy.
 *
 * @param limits the limits of the rule in its order; none of them has refused
 * @param ban the running ban
 * @param strikes number of bans of the key, each within the ban memory of the one before
 */
public record KeyStatus(List<LimitStatus> limits, Optional<BanStatus> ban, int strikes) {
  static KeyStatus of(io.tollgate.v1.GetKeyResponse answer) {
    return new KeyStatus(
        answer.getLimitsList().stream().map(LimitStatus::of).toList(),
        answer.hasBan() ? Optional.of(BanStatus.of(answer.getBan())) : Optional.empty(),
        answer.getStrikes());
  }
}

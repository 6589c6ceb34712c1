package io.tollgate;

import java.time.Instant;

/**
 * A running ban.
 *
 * @param key the banned key
 * @param until when it ends, on the clock of the server
 * @param reason the reason; may be empty
 * @param strikes number of bans of the key, including this one
 */
public record BanStatus(String key, Instant until, String reason, int strikes) {
  static BanStatus of(io.tollgate.v1.Ban ban) {
    return new BanStatus(
        ban.getKey(), Times.instant(ban.getUntil()), ban.getReason(), ban.getStrikes());
  }
}

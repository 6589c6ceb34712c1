package io.tollgate;

import java.time.Duration;

/**
 * Usage of a limit.
 *
 * @param name the limit; empty for the only limit of a rule
 * @param max the maximum under the current rule
 * @param count calls counted
 * @param remaining calls left
 * @param resetAfter time until all usage is given back if the key makes no call
 * @param window length of the window
 * @param refused whether this limit refused the call
 */
public record LimitStatus(
    String name,
    long max,
    long count,
    long remaining,
    Duration resetAfter,
    Duration window,
    boolean refused) {
  static LimitStatus of(io.tollgate.v1.LimitUsage usage) {
    return new LimitStatus(
        usage.getName(),
        usage.getMax(),
        usage.getCount(),
        usage.getRemaining(),
        Times.duration(usage.getResetAfter()),
        Times.duration(usage.getWindow()),
        usage.getRefused());
  }
}

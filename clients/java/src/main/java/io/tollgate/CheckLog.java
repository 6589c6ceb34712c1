package io.tollgate;

import java.util.HashMap;
import java.util.Map;

/**
 * Logs checks that were not decided: at most one line in 10 s for each policy and effect. The
 * logger is {@code io.tollgate}.
 */
final class CheckLog {
  private static final System.Logger LOGGER = System.getLogger("io.tollgate");
  private static final long PERIOD_NANOS = 10_000_000_000L;

  /** Number of kinds of lines; all further kinds share one limit. */
  static final int KINDS_MAX = 100;

  private static final Kind OTHERS = new Kind("", "");

  private record Kind(String policy, String effect) {}

  private static final class Pace {
    private Long next;
    private long suppressed;
  }

  private final Map<Kind, Pace> kinds = new HashMap<>();

  /** Logs a check of a policy, and what happens to its call. */
  void undecided(String policy, String effect, TollgateException failure) {
    long suppressed = due(policy, effect, System.nanoTime());
    if (suppressed >= 0) {
      LOGGER.log(
          System.Logger.Level.WARNING,
          () ->
              "rate of policy \"%s\" not checked, %s: %s (%s) (%d such checks not logged)"
                  .formatted(
                      escaped(policy),
                      effect,
                      escaped(String.valueOf(failure.getMessage())),
                      failure.reason(),
                      suppressed));
    }
  }

  /** Returns the number of lines suppressed before this one; below 0 if it is suppressed too. */
  synchronized long due(String policy, String effect, long now) {
    Kind kind = new Kind(policy, effect);
    if (kinds.size() >= KINDS_MAX && !kinds.containsKey(kind)) {
      kind = OTHERS;
    }
    Pace pace = kinds.computeIfAbsent(kind, unused -> new Pace());
    if (pace.next != null && now - pace.next < 0) {
      pace.suppressed++;
      return -1;
    }
    long suppressed = pace.suppressed;
    pace.next = now + PERIOD_NANOS;
    pace.suppressed = 0;
    return suppressed;
  }

  /** Returns a text whose characters are all printable ASCII. */
  private static String escaped(String text) {
    StringBuilder out = new StringBuilder();
    text.codePoints()
        .forEach(
            c -> {
              if (c >= ' ' && c <= '~') {
                out.append((char) c);
              } else {
                out.append("\\u{").append(Integer.toHexString(c)).append('}');
              }
            });
    return out.toString();
  }
}

package io.tollgate;

import java.time.Duration;

/**
 * How a call is repeated, and on which connection it is sent.
 *
 * @param repeatable whether a repeat has no further effect
 * @param attempts maximum number of attempts
 * @param budgeted whether retries take from the retry budget
 * @param maxWait longest wait of the call at the server; above zero it travels on a connection for
 *     waits
 * @param stopAt reading of the clock after which there is no retry
 * @param server the server to prefer, or null
 * @param deadlines the deadline of an attempt, in deadlines of the client
 */
record CallPlan(
    boolean repeatable,
    int attempts,
    boolean budgeted,
    Duration maxWait,
    long stopAt,
    Endpoint server,
    int deadlines) {
  static final int ATTEMPTS = 8;

  static final CallPlan SAFE =
      new CallPlan(true, ATTEMPTS, true, Duration.ZERO, Long.MAX_VALUE, null, 1);
  static final CallPlan ONCE = new CallPlan(false, 1, true, Duration.ZERO, Long.MAX_VALUE, null, 1);
  static final CallPlan UNTIL_ANSWERED =
      new CallPlan(true, Integer.MAX_VALUE, false, Duration.ZERO, Long.MAX_VALUE, null, 1);

  /** A call for up to 1,000 tasks, which takes longer. */
  static final CallPlan BULK =
      new CallPlan(true, ATTEMPTS, true, Duration.ZERO, Long.MAX_VALUE, null, 5);

  CallPlan waiting(Duration longest) {
    return new CallPlan(repeatable, attempts, budgeted, longest, stopAt, server, deadlines);
  }

  /** Repeats until the reading {@code stopAt} of the clock, without the budget. */
  CallPlan until(long end) {
    return new CallPlan(true, Integer.MAX_VALUE, false, maxWait, end, server, deadlines);
  }

  CallPlan attempts(int most) {
    return new CallPlan(repeatable, most, budgeted, maxWait, stopAt, server, deadlines);
  }

  CallPlan at(Endpoint preferred) {
    return new CallPlan(repeatable, attempts, budgeted, maxWait, stopAt, preferred, deadlines);
  }
}

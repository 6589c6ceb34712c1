package io.tollgate;

import java.util.Optional;
import java.util.OptionalLong;

/**
 * Options of a request for values. Immutable.
 *
 * @param count how many values, 1 to 10,000; default 1
 * @param step distance between values, 1 to 2^63-1, with a calendar 1 to 1,000,000; default 1
 * @param floor lower bound of the values, 0 to 2^63-1; default none
 * @param requestId a repeat within 5 minutes gets the same values; default: a new one for each
 *     call; empty: none, and the call is not retried
 */
public record SequenceOptions(
    int count, long step, OptionalLong floor, Optional<String> requestId) {
  private static final SequenceOptions DEFAULTS =
      new SequenceOptions(1, 1, OptionalLong.empty(), Optional.empty());

  /** Returns the defaults: one value. */
  public static SequenceOptions defaults() {
    return DEFAULTS;
  }

  /** Returns these options with a number of values. */
  public SequenceOptions withCount(int values) {
    return new SequenceOptions(values, step, floor, requestId);
  }

  /** Returns these options with a distance between values. */
  public SequenceOptions withStep(long distance) {
    return new SequenceOptions(count, distance, floor, requestId);
  }

  /** Returns these options with a lower bound. */
  public SequenceOptions withFloor(long bound) {
    return new SequenceOptions(count, step, OptionalLong.of(bound), requestId);
  }

  /** Returns these options with a request id. */
  public SequenceOptions withRequestId(String id) {
    return new SequenceOptions(count, step, floor, Optional.of(id));
  }
}

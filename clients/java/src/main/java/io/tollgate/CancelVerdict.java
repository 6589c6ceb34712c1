package io.tollgate;

/** Answer to the cancellation of a queued task. */
public enum CancelVerdict {
  /** It is not dispatched again. */
  CANCELLED,
  /** It is not dispatched again, but its lease runs. */
  RUNNING,
  /** It has a result. */
  COMPLETED,
  /** No such task was queued, or it was forgotten. */
  UNKNOWN
}

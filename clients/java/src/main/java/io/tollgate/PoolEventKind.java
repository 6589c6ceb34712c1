package io.tollgate;

/** Kind of a change of a pool. */
public enum PoolEventKind {
  /** A task was queued. */
  ENQUEUED,
  /** A task was granted a lease. */
  ADMITTED,
  /** A lease was extended. */
  RENEWED,
  /** A result arrived in time. */
  COMPLETED,
  /** A result arrived after its lease had ended. */
  LATE,
  /** A lease ended without a result. */
  EXPIRED,
  /** A slot was freed by an operator. */
  EVICTED,
  /** A task was removed from its queue. */
  CANCELLED,
  /** The last attempt of a task ended without success. */
  DEAD,
  /** The settings of the pool changed. */
  CONFIGURED,
  /** Events before this one are no longer stored. */
  GAP,
  /** A kind that this version of the library does not know. */
  OTHER
}

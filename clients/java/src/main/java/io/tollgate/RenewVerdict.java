package io.tollgate;

/** Answer to a renewal. */
public enum RenewVerdict {
  /** The lease was extended. */
  RENEWED,
  /** The lease has ended or was evicted. */
  EXPIRED,
  /** The task has a result. */
  COMPLETED,
  /** The token does not belong to the last lease. */
  STALE_TOKEN,
  /** The task is unknown. */
  UNKNOWN
}

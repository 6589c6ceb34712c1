package io.tollgate;

/** Answer to a renewal. */
public enum RenewVerdict {
  /** The lease runs on. */
  RENEWED,
  /** The lease has ended or was evicted. */
  EXPIRED,
  /** The task has a result. */
  COMPLETED,
  /** The token is not that of the last lease. */
  STALE_TOKEN,
  /** The task is unknown. */
  UNKNOWN
}

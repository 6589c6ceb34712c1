package io.tollgate;

/** Answer to the report of a result. */
public enum CompleteVerdict {
  /** The result is recorded, and the slot is free. */
  COMPLETED,
  /** The task already had a result, which stays. */
  ALREADY_COMPLETED,
  /** The lease had ended. The result is recorded. */
  LATE,
  /** The task was admitted again. The result is not recorded. */
  STALE_TOKEN,
  /** The task is unknown. The result is not recorded. */
  UNKNOWN
}

package io.tollgate;

/** State of a task that was queued. */
public enum TaskState {
  /** It waits for the report of its device. */
  QUEUED,
  /** Its lease runs. */
  RUNNING,
  /** Its last attempt ended without success. */
  DEAD,
  /** It was cancelled. */
  CANCELLED,
  /** Its expiry time passed before a result. */
  EXPIRED
}

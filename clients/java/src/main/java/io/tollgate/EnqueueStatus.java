package io.tollgate;

/** The result for one task of a batch. */
public enum EnqueueStatus {
  /** The task is now the last one in the queue of its device. */
  ENQUEUED,
  /** It is known: queued, running or remembered. Nothing changed. */
  DUPLICATE,
  /** Its expiry time had passed. It is not queued. */
  EXPIRED,
  /** The pool has reached its maximum number of queued tasks, or memory is full. */
  FULL,
  /** A stored value of the task cannot be read. It is not queued. */
  UNREADABLE,
  /** The store did not accept this task. Queue it again. */
  UNAVAILABLE
}

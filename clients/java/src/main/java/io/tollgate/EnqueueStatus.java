package io.tollgate;

/** What became of one task of a batch. */
public enum EnqueueStatus {
  /** The task is now the last one in the queue of its device. */
  ENQUEUED,
  /** It is known: queued, running or remembered. Nothing changed. */
  DUPLICATE,
  /** Its expiry time had passed. It is not queued. */
  EXPIRED,
  /** The pool has its maximum of queued tasks, or memory is full. */
  FULL,
  /** A stored value of the task cannot be read. It is not queued. */
  UNREADABLE,
  /** The store did not take this task. Queue it again. */
  UNAVAILABLE
}

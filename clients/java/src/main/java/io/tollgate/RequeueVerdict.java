package io.tollgate;

/** Answer to the request to queue a dead task again. */
public enum RequeueVerdict {
  /** It was dead, and is the last one in the queue of its device. */
  REQUEUED,
  /** It is in the queue, waiting or running. */
  ALREADY_QUEUED,
  /** It has a result, or was cancelled. */
  NOT_DEAD,
  /** Its expire time has passed. */
  EXPIRED,
  /** The pool has reached its maximum number of queued tasks; the task stays dead. */
  FULL,
  /** No such task was queued, or it was forgotten. */
  UNKNOWN
}

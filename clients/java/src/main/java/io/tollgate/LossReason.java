package io.tollgate;

/** Why a permit or a lock was lost. */
public enum LossReason {
  /** The lease has ended: on the local clock, or by the answer to a renewal. */
  EXPIRED,
  /** Another caller has reported a result of the task. */
  COMPLETED,
  /** The lease belongs to a later admission of the same task. */
  STALE_TOKEN,
  /** The server does not know the lease. */
  UNKNOWN,
  /** Another owner may hold the lock. */
  NOT_HELD
}

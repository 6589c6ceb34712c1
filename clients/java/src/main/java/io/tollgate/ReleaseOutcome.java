package io.tollgate;

/** Answer to the release of a lock. */
public enum ReleaseOutcome {
  /** The lease has ended. */
  RELEASED,
  /** The owner held no such lease. */
  NOT_HELD
}

package io.tollgate;

/** Answer to an eviction. */
public enum EvictVerdict {
  /** The slot is free. */
  EVICTED,
  /** The task holds no slot: completed, or its lease had ended. */
  ENDED,
  /** The task is unknown. */
  UNKNOWN
}

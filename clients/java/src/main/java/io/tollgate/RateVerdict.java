package io.tollgate;

/** Answer to a rate check. */
public enum RateVerdict {
  /** Within all limits. */
  ALLOW,
  /** The call may pass; the count is above a warning tier. */
  WARN,
  /** The call may not pass. */
  THROTTLE,
  /** The key is banned. */
  BAN
}

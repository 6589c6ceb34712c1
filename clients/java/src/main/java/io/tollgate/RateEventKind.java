package io.tollgate;

/** Kind of a change of a key. */
public enum RateEventKind {
  /** The key reached a warning tier. */
  WARNED,
  /** The key reached a throttle tier. */
  THROTTLED,
  /** The key was banned. */
  BANNED,
  /** The ban of the key was lifted. */
  UNBANNED,
  /** Events before this one are no longer stored. */
  GAP,
  /** A kind that this version of the library does not know. */
  OTHER
}

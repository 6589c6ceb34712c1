package io.tollgate;

/** How a task went. */
public enum Outcome {
  /** The task is done. */
  SUCCEEDED,
  /** The task ran and failed. A queued task is dispatched again while it has attempts left. */
  FAILED
}

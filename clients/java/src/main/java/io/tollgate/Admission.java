package io.tollgate;

import java.time.Duration;
import java.util.Optional;

/** Answer to a request for a slot. A refusal is a value, not an exception. */
public sealed interface Admission {
  /** Returns the permit if the task was admitted. */
  default Optional<Permit> granted() {
    return this instanceof Admitted admitted ? Optional.of(admitted.permit()) : Optional.empty();
  }

  /** Returns when to ask again, if the answer says so. */
  default Optional<Duration> askAgainAfter() {
    if (this instanceof Full full) {
      return Optional.of(full.retryAfter());
    }
    return this instanceof Paused paused ? Optional.of(paused.retryAfter()) : Optional.empty();
  }

  /**
   * The task holds a slot.
   *
   * @param permit the right to run the task
   */
  record Admitted(Permit permit) implements Admission {}

  /**
   * All slots are in use.
   *
   * @param retryAfter when to ask again; above zero
   * @param usage the usage of the pool
   */
  record Full(Duration retryAfter, Usage usage) implements Admission {}

  /**
   * The pool admits no tasks.
   *
   * @param retryAfter when to ask again; above zero
   * @param usage the usage of the pool
   */
  record Paused(Duration retryAfter, Usage usage) implements Admission {}

  /** The task has a result, or it is cancelled, expired or dead. Do not run it again. */
  record AlreadyCompleted() implements Admission {}

  /** Nothing is queued for the device. */
  record NoTask() implements Admission {}
}

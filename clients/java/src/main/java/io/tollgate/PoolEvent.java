package io.tollgate;

import java.time.Instant;
import java.util.Optional;
import java.util.OptionalInt;

/**
 * A change of a pool.
 *
 * @param cursor the position after this event; empty on a gap that the library reports
 * @param kind what changed
 * @param device the device; empty on CONFIGURED and GAP
 * @param task the task; empty on CONFIGURED and GAP
 * @param token the token of the lease, as unsigned number; 0 without a lease
 * @param attempt the attempt of a queued task; 0 before the first
 * @param outcome how the task went; present on COMPLETED and LATE
 * @param time when it happened; empty on GAP
 * @param capacity the slots of the pool; present on ADMITTED and CONFIGURED
 */
public record PoolEvent(
    String cursor,
    PoolEventKind kind,
    String device,
    String task,
    long token,
    int attempt,
    Optional<Outcome> outcome,
    Optional<Instant> time,
    OptionalInt capacity) {
  static PoolEvent of(io.tollgate.v1.PoolEvent event) {
    Optional<Outcome> outcome =
        switch (event.getOutcome()) {
          case OUTCOME_SUCCEEDED -> Optional.of(Outcome.SUCCEEDED);
          case OUTCOME_FAILED -> Optional.of(Outcome.FAILED);
          default -> Optional.empty();
        };
    return new PoolEvent(
        event.getCursor(),
        Enums.of(PoolEventKind.class, "POOL_EVENT_KIND_", event.getKind(), PoolEventKind.OTHER),
        event.getDeviceId(),
        event.getTaskId(),
        event.getFencingToken(),
        event.getAttempt(),
        outcome,
        event.hasEventTime() ? Optional.of(Times.instant(event.getEventTime())) : Optional.empty(),
        event.hasCapacity() ? OptionalInt.of(event.getCapacity()) : OptionalInt.empty());
  }

  static PoolEvent gap() {
    return new PoolEvent(
        "",
        PoolEventKind.GAP,
        "",
        "",
        0,
        0,
        Optional.empty(),
        Optional.empty(),
        OptionalInt.empty());
  }
}

package io.tollgate;

import java.time.Instant;
import java.util.Optional;
import java.util.OptionalLong;

/**
 * A notice about a key, or a change of its ban.
 *
 * @param cursor the position after this event; empty on a gap that the library reports
 * @param kind what happened
 * @param key the key; empty on GAP
 * @param time when it happened; empty on GAP
 * @param above the tier that was reached
 * @param count the count on the first limit
 * @param ban the ban; present on BANNED
 */
public record RateEvent(
    String cursor,
    RateEventKind kind,
    String key,
    Optional<Instant> time,
    OptionalLong above,
    long count,
    Optional<BanStatus> ban) {
  static RateEvent of(io.tollgate.v1.RateEvent event) {
    return new RateEvent(
        event.getCursor(),
        Enums.of(RateEventKind.class, "RATE_EVENT_KIND_", event.getKind(), RateEventKind.OTHER),
        event.getKey(),
        event.hasEventTime() ? Optional.of(Times.instant(event.getEventTime())) : Optional.empty(),
        event.hasAbove() ? OptionalLong.of(event.getAbove()) : OptionalLong.empty(),
        event.getCount(),
        event.hasBan() ? Optional.of(BanStatus.of(event.getBan())) : Optional.empty());
  }

  static RateEvent gap() {
    return new RateEvent(
        "", RateEventKind.GAP, "", Optional.empty(), OptionalLong.empty(), 0, Optional.empty());
  }
}

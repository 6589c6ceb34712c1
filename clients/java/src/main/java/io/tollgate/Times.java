package io.tollgate;

import com.google.protobuf.Timestamp;
import java.time.Duration;
import java.time.Instant;

/** Conversions between times of the contract and of Java. */
final class Times {
  /** The longest duration whose nanoseconds are exact here; about 292 years. */
  private static final Duration LONGEST = Duration.ofNanos(Long.MAX_VALUE);

  private Times() {}

  static Duration duration(com.google.protobuf.Duration duration) {
    return Duration.ofSeconds(duration.getSeconds(), duration.getNanos());
  }

  static com.google.protobuf.Duration proto(Duration duration) {
    return com.google.protobuf.Duration.newBuilder()
        .setSeconds(duration.getSeconds())
        .setNanos(duration.getNano())
        .build();
  }

  static Instant instant(Timestamp time) {
    return Instant.ofEpochSecond(time.getSeconds(), time.getNanos());
  }

  static Timestamp proto(Instant time) {
    return Timestamp.newBuilder()
        .setSeconds(time.getEpochSecond())
        .setNanos(time.getNano())
        .build();
  }

  /** Returns the nanoseconds of a duration, at most {@link Long#MAX_VALUE}. */
  static long nanos(Duration duration) {
    return duration.compareTo(LONGEST) > 0 ? Long.MAX_VALUE : duration.toNanos();
  }
}

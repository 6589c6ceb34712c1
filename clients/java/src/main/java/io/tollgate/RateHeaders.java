package io.tollgate;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.stream.Collectors;

/** Headers of draft-ietf-httpapi-ratelimit-headers. */
final class RateHeaders {
  private RateHeaders() {}

  static Map<String, String> of(RateDecision decision) {
    Map<String, String> headers = new LinkedHashMap<>();
    if (!decision.limits().isEmpty()) {
      headers.put(
          "ratelimit",
          decision.limits().stream().map(RateHeaders::usage).collect(Collectors.joining(", ")));
      headers.put(
          "ratelimit-policy",
          decision.limits().stream().map(RateHeaders::policy).collect(Collectors.joining(", ")));
    }
    if (!decision.allowed()) {
      decision
          .retryAfter()
          .ifPresent(d -> headers.put("retry-after", "" + Math.max(1, seconds(d))));
    }
    return headers;
  }

  private static String usage(LimitStatus limit) {
    return quoted(limit.name())
        + ";r="
        + Long.toUnsignedString(limit.remaining())
        + ";t="
        + seconds(limit.resetAfter());
  }

  private static String policy(LimitStatus limit) {
    return quoted(limit.name())
        + ";q="
        + Long.toUnsignedString(limit.max())
        + ";w="
        + seconds(limit.window());
  }

  private static long seconds(Duration duration) {
    return duration.getNano() > 0 ? duration.getSeconds() + 1 : duration.getSeconds();
  }

  /** Returns a string of RFC 9651; bytes beyond ASCII are percent-encoded. */
  private static String quoted(String name) {
    StringBuilder out = new StringBuilder("\"");
    for (byte b : (name.isEmpty() ? "default" : name).getBytes(StandardCharsets.UTF_8)) {
      if (b == '"' || b == '\\') {
        out.append('\\').append((char) b);
      } else if (b >= 0x20 && b < 0x7f) {
        out.append((char) b);
      } else {
        out.append(String.format("%%%02X", b));
      }
    }
    return out.append('"').toString();
  }
}

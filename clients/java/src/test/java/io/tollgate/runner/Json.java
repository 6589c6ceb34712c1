package io.tollgate.runner;

import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import io.tollgate.TollgateException;
import java.time.Duration;

/** Answers of the runner. */
final class Json {
  private final JsonObject object = new JsonObject();

  Json put(String field, String value) {
    object.addProperty(field, value);
    return this;
  }

  Json put(String field, boolean value) {
    object.addProperty(field, value);
    return this;
  }

  Json put(String field, int value) {
    object.addProperty(field, value);
    return this;
  }

  Json put(String field, double value) {
    object.addProperty(field, value);
    return this;
  }

  Json put(String field, Enum<?> value) {
    return put(field, value.name());
  }

  Json put(String field, Duration value) {
    return put(field, value.toNanos() / 1e9);
  }

  Json put(String field, JsonArray value) {
    object.add(field, value);
    return this;
  }

  /** Adds a 64-bit number as text. */
  Json digits(String field, long value) {
    return put(field, Long.toUnsignedString(value));
  }

  JsonObject object() {
    return object;
  }

  static JsonObject error(Throwable error) {
    Json json = new Json();
    JsonArray violations = new JsonArray();
    if (error instanceof TollgateException failure) {
      json.put("code", failure.code()).put("reason", failure.reason());
      for (TollgateException.Violation v : failure.violations()) {
        violations.add(
            new Json().put("field", v.field()).put("description", v.description()).object());
      }
      failure.retryAfter().ifPresent(pause -> json.put("retry_after", pause));
    } else {
      json.put("code", error instanceof IllegalArgumentException ? "INVALID_ARGUMENT" : "UNKNOWN");
      json.put("reason", "");
    }
    return json.put("violations", violations)
        .put("message", String.valueOf(error.getMessage()))
        .object();
  }
}

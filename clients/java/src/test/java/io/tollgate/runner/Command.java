package io.tollgate.runner;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;

/** A command of a scenario. */
record Command(JsonObject fields) {
  boolean has(String field) {
    return fields.has(field) && !fields.get(field).isJsonNull();
  }

  String text(String field) {
    return fields.get(field).getAsString();
  }

  String text(String field, String absent) {
    return has(field) ? text(field) : absent;
  }

  Optional<String> optionalText(String field) {
    return has(field) ? Optional.of(text(field)) : Optional.empty();
  }

  long number(String field) {
    JsonElement value = fields.get(field);
    return value.getAsJsonPrimitive().isString()
        ? Long.parseUnsignedLong(value.getAsString())
        : value.getAsLong();
  }

  long signed(String field) {
    return Long.parseLong(fields.get(field).getAsString());
  }

  int number(String field, int absent) {
    return has(field) ? (int) number(field) : absent;
  }

  OptionalLong optionalNumber(String field) {
    return has(field) ? OptionalLong.of(number(field)) : OptionalLong.empty();
  }

  boolean flag(String field, boolean absent) {
    return has(field) ? fields.get(field).getAsBoolean() : absent;
  }

  Duration duration(String field) {
    return Duration.ofNanos(Math.round(fields.get(field).getAsDouble() * 1e9));
  }

  Optional<Duration> optionalDuration(String field) {
    return has(field) ? Optional.of(duration(field)) : Optional.empty();
  }

  byte[] bytes(String field) {
    return text(field, "").getBytes(StandardCharsets.UTF_8);
  }

  List<String> texts(String field) {
    List<String> all = new ArrayList<>();
    fields.getAsJsonArray(field).forEach(item -> all.add(item.getAsString()));
    return all;
  }

  List<Command> items(String field) {
    JsonArray array = fields.getAsJsonArray(field);
    List<Command> all = new ArrayList<>();
    array.forEach(item -> all.add(new Command(item.getAsJsonObject())));
    return all;
  }
}

package io.tollgate.runner;

import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import io.tollgate.AddressKey;
import io.tollgate.KeyStatus;
import io.tollgate.LimitStatus;
import io.tollgate.RateDecision;
import io.tollgate.RateEvent;
import io.tollgate.RateLimiter;
import io.tollgate.TollgateException;
import io.tollgate.Watch;
import io.tollgate.servlet.RateLimitFilter;
import io.tollgate.servlet.RateLimitKey;
import java.util.Map;
import java.util.UUID;
import java.util.function.Consumer;

/** Commands of rates and watches. */
final class RateCommands {
  private final Session session;

  RateCommands(Session session) {
    this.session = session;
  }

  void register(Map<String, Runner.Action> actions) {
    actions.put("check", this::check);
    actions.put("get_key", this::getKey);
    actions.put(
        "address_key",
        command ->
            new Json()
                .put(
                    "key",
                    AddressKey.of(
                        command.text("address"), command.number("prefix", AddressKey.IPV6_BITS))));
    actions.put("http_start", this::httpStart);
    actions.put("http_stop", this::httpStop);
    actions.put("watch_rates", this::watch);
    actions.put("watch_stop", this::watchStop);
  }

  private RateLimiter limiter(Command command) {
    RateLimiter limiter = session.client(command).limiter(command.text("policy"));
    return switch (command.text("on_failure", "")) {
      case "open" -> limiter.failOpen();
      case "closed" -> limiter.failClosed();
      default -> limiter;
    };
  }

  private Json check(Command command) {
    RateDecision decision =
        limiter(command)
            .check(
                command.text("key"),
                command.number("cost", 1),
                command.text("request_id", UUID.randomUUID().toString()));
    Json json =
        new Json()
            .put("allowed", decision.allowed())
            .put("verdict", decision.verdict().map(Enum::name).orElse(""))
            .put("replayed", decision.replayed())
            .put("degraded", decision.degraded());
    decision.retryAfter().ifPresent(pause -> json.put("retry_after", pause));
    JsonObject headers = new JsonObject();
    decision.headers().forEach(headers::addProperty);
    json.object().add("headers", headers);
    return json;
  }

  private Json getKey(Command command) {
    KeyStatus key =
        session.client(command).rates().key(command.text("key"), command.text("policy"));
    JsonArray limits = new JsonArray();
    for (LimitStatus limit : key.limits()) {
      limits.add(
          new Json()
              .put("name", limit.name())
              .digits("max", limit.max())
              .digits("count", limit.count())
              .digits("remaining", limit.remaining())
              .object());
    }
    return new Json()
        .put("limits", limits)
        .put("banned", key.ban().isPresent())
        .put("strikes", key.strikes());
  }

  private Json httpStart(Command command) throws Exception {
    RateLimitFilter filter = new RateLimitFilter(limiter(command), RateLimitKey.header("x-caller"));
    WebServer server = WebServer.start(filter);
    session.keep(command, server);
    return new Json().put("url", server.url());
  }

  private Json httpStop(Command command) throws Exception {
    session.object(command, WebServer.class).close();
    return new Json();
  }

  private Json watch(Command command) {
    var rates = session.client(command).rates();
    Watch<RateEvent> watch =
        command.has("after")
            ? rates.watch(command.text("policy"), command.text("after"))
            : rates.watch(command.text("policy"));
    session.keep(command, watch);
    follow(
        session,
        watch,
        event ->
            session.event(
                "rate",
                new Json()
                    .put("handle", command.text("handle"))
                    .put("kind", event.kind())
                    .put("cursor", event.cursor())
                    .put("key", event.key())));
    return new Json();
  }

  private Json watchStop(Command command) {
    session.object(command, Watch.class).close();
    return new Json();
  }

  static <E> void follow(Session session, Watch<E> watch, Consumer<E> each) {
    Thread thread =
        new Thread(
            () -> {
              try {
                watch.forEachRemaining(each);
              } catch (TollgateException failure) {
                Json event = new Json();
                event.object().add("error", Json.error(failure));
                session.event("watch_error", event);
              }
            });
    thread.setDaemon(true);
    thread.start();
  }
}

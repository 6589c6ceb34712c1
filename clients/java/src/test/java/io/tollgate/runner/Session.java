package io.tollgate.runner;

import com.google.gson.JsonObject;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.MethodDescriptor;
import io.tollgate.TestClock;
import io.tollgate.Tollgate;
import io.tollgate.TollgateBuilder;
import java.io.IOException;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Supplier;

/** The connections and objects of a scenario. */
final class Session {
  private static final String MAIN = "main";

  private final Map<String, Tollgate> connections = new ConcurrentHashMap<>();
  private final Map<String, Object> objects = new ConcurrentHashMap<>();
  private final AtomicLong calls = new AtomicLong();
  private final TestClock clock = new TestClock();
  private final PrintStream out;

  Session(PrintStream out) {
    this.out = out;
  }

  void send(JsonObject message) {
    synchronized (out) {
      out.println(message);
      out.flush();
    }
  }

  void event(String name, Json fields) {
    send(fields.put("event", name).object());
  }

  Tollgate client(Command command) {
    String name = command.text("connection", MAIN);
    Tollgate client = connections.get(name);
    if (client == null) {
      throw new NoSuchElementException("no connection " + name);
    }
    return client;
  }

  <T> T object(Command command, Class<T> type) {
    Object object = objects.get(command.text("handle"));
    if (object == null) {
      throw new NoSuchElementException("no object " + command.text("handle"));
    }
    return type.cast(object);
  }

  void keep(Command command, Object object) {
    objects.put(command.text("handle"), object);
  }

  void forget(Command command) {
    objects.remove(command.text("handle"));
  }

  TestClock clock() {
    return clock;
  }

  long calls() {
    return calls.get();
  }

  Json open(Command command) {
    TollgateBuilder builder =
        Tollgate.builder().addresses(command.texts("addresses").toArray(String[]::new));
    command.optionalText("ca").ifPresent(file -> builder.tls(Path.of(file)));
    command
        .optionalText("cert")
        .ifPresent(file -> builder.certificate(Path.of(file), Path.of(command.text("key"))));
    command.optionalText("server_name").ifPresent(builder::serverName);
    command.optionalText("token").ifPresent(builder::token);
    command.optionalText("token_file").ifPresent(file -> builder.tokenFile(Path.of(file)));
    command.optionalText("token_callback").ifPresent(file -> builder.token(reading(file)));
    command.optionalText("namespace").ifPresent(builder::namespace);
    command.optionalDuration("deadline").ifPresent(builder::deadline);
    builder.intercept(new Counter());
    Tollgate before = connections.put(command.text("connection", MAIN), clock.on(builder).build());
    if (before != null) {
      before.close();
    }
    return new Json();
  }

  Json close(Command command) {
    Tollgate client = connections.remove(command.text("connection", MAIN));
    if (client != null) {
      client.close();
    }
    return new Json();
  }

  private static Supplier<String> reading(String file) {
    return () -> {
      try {
        return Files.readString(Path.of(file)).strip();
      } catch (IOException failure) {
        throw new UncheckedIOException(failure);
      }
    };
  }

  private final class Counter implements ClientInterceptor {
    @Override
    public <Q, A> ClientCall<Q, A> interceptCall(
        MethodDescriptor<Q, A> method, CallOptions options, Channel next) {
      if (!method.getServiceName().equals("grpc.health.v1.Health")) {
        calls.incrementAndGet();
      }
      return next.newCall(method, options);
    }
  }
}

package io.tollgate.runner;

import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** Plays the commands of the common scenarios, one JSON object a line. */
public final class Runner {
  /** Performs a command and returns its answer. */
  @FunctionalInterface
  interface Action {
    Json run(Command command) throws Exception;
  }

  private final Session session;
  private final Map<String, Action> actions = new HashMap<>();
  private final Map<String, Thread> running = new ConcurrentHashMap<>();
  private final ExecutorService threads = Executors.newCachedThreadPool();

  private Runner(PrintStream out) {
    session = new Session(out);
    actions.put("open", session::open);
    actions.put("close", session::close);
    actions.put("cancel", this::cancel);
    new AdmissionCommands(session).register(actions);
    new BulkCommands(session).register(actions);
    new RateCommands(session).register(actions);
    new StoreCommands(session).register(actions);
    new LoadCommands(session).register(actions);
  }

  /** Reads commands until the command {@code quit} or the end of the input. */
  public static void main(String[] arguments) throws IOException {
    PrintStream out =
        new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);
    System.setOut(System.err);
    new Runner(out).read();
    System.exit(0);
  }

  private void read() throws IOException {
    BufferedReader lines =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      if (line.isBlank()) {
        continue;
      }
      Command command = new Command(JsonParser.parseString(line).getAsJsonObject());
      if (command.text("do").equals("quit")) {
        session.send(answer(command, new Json()));
        return;
      }
      threads.execute(() -> perform(command));
    }
  }

  private void perform(Command command) {
    String id = command.text("id");
    running.put(id, Thread.currentThread());
    JsonObject answer;
    try {
      Action action = actions.get(command.text("do"));
      if (action == null) {
        throw new UnsupportedOperationException("no command " + command.text("do"));
      }
      answer = answer(command, action.run(command));
    } catch (Exception failure) {
      answer = new JsonObject();
      answer.add("id", command.fields().get("id"));
      answer.add("error", Json.error(failure));
    }
    synchronized (running) {
      running.remove(id);
      Thread.interrupted();
    }
    session.send(answer);
  }

  private static JsonObject answer(Command command, Json fields) {
    JsonObject answer = new JsonObject();
    answer.add("id", command.fields().get("id"));
    answer.add("answer", fields.object());
    return answer;
  }

  private Json cancel(Command command) {
    synchronized (running) {
      Thread target = running.get(command.text("target"));
      if (target != null) {
        target.interrupt();
      }
    }
    return new Json();
  }
}

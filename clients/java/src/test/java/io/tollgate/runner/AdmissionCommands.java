package io.tollgate.runner;

import com.google.gson.JsonArray;
import io.tollgate.Admission;
import io.tollgate.AdmitOptions;
import io.tollgate.CompleteVerdict;
import io.tollgate.Outcome;
import io.tollgate.Permit;
import io.tollgate.Pool;
import io.tollgate.PoolEvent;
import io.tollgate.PoolSettings;
import io.tollgate.PoolStatus;
import io.tollgate.QueuedTask;
import io.tollgate.RenewVerdict;
import io.tollgate.Watch;
import io.tollgate.Worker;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;

/** Commands of pools. */
final class AdmissionCommands {
  private final Session session;

  AdmissionCommands(Session session) {
    this.session = session;
  }

  void register(Map<String, Runner.Action> actions) {
    actions.put("admit", this::admit);
    actions.put("poll", this::admit);
    actions.put("permit", this::permit);
    actions.put("complete", this::complete);
    actions.put("leave", this::leave);
    actions.put("complete_task", this::completeTask);
    actions.put("renew_task", this::renewTask);
    actions.put("enqueue", this::enqueue);
    actions.put("evict", this::evict);
    actions.put("cancel_task", this::cancelTask);
    actions.put("requeue_task", this::requeueTask);
    actions.put("pool", command -> status(pool(command).status()));
    actions.put("configure", this::configure);
    actions.put("worker_start", this::workerStart);
    actions.put("worker_stop", this::workerStop);
    actions.put("watch_pool", this::watch);
  }

  private Pool pool(Command command) {
    return session.client(command).pool(command.text("pool"));
  }

  private Json admit(Command command) {
    AdmitOptions options =
        new AdmitOptions(
            command.optionalDuration("wait").orElse(java.time.Duration.ZERO),
            command.optionalDuration("lease"),
            command.flag("keeper", true));
    Pool pool = pool(command);
    String device = command.text("device");
    Admission admission =
        command.text("do").equals("poll")
            ? pool.poll(device, options)
            : pool.admit(device, command.text("task"), options);
    admission.granted().ifPresent(permit -> keep(command, permit));
    return answer(admission);
  }

  private void keep(Command command, Permit permit) {
    session.keep(command, permit);
    var unused =
        permit
            .lost()
            .thenAccept(
                reason -> session.event("lost", new Json().put("handle", command.text("handle"))));
  }

  static Json answer(Admission admission) {
    Json json = new Json();
    admission.askAgainAfter().ifPresent(pause -> json.put("retry_after", pause));
    if (admission instanceof Admission.Admitted admitted) {
      Permit permit = admitted.permit();
      json.put("outcome", "ADMITTED")
          .digits("token", permit.token())
          .put("replayed", permit.replayed())
          .put("valid_for", permit.remaining());
      if (permit.attempt() > 0) {
        json.put("task", permit.task())
            .put("payload", new String(permit.payload(), StandardCharsets.UTF_8))
            .put("attempt", permit.attempt());
      }
      return json;
    }
    if (admission instanceof Admission.Full) {
      return json.put("outcome", "FULL");
    }
    if (admission instanceof Admission.Paused) {
      return json.put("outcome", "PAUSED");
    }
    return json.put(
        "outcome", admission instanceof Admission.NoTask ? "NO_TASK" : "ALREADY_COMPLETED");
  }

  private Json permit(Command command) {
    Permit permit = session.object(command, Permit.class);
    return new Json()
        .put("valid", permit.valid())
        .put("lost", permit.isLost())
        .put("valid_for", permit.remaining())
        .digits("token", permit.token());
  }

  static Outcome outcome(Command command) {
    return Outcome.valueOf(command.text("outcome", "SUCCEEDED"));
  }

  private Json complete(Command command) {
    Permit permit = session.object(command, Permit.class);
    return new Json().put("verdict", permit.complete(outcome(command), command.bytes("result")));
  }

  private Json leave(Command command) {
    Permit permit = session.object(command, Permit.class);
    return left(command, body -> permit.run(p -> body.run()));
  }

  /** Leaves a scope, whose body fails if the command says so. */
  static Json left(Command command, Consumer<Runnable> scope) {
    IllegalStateException failure = new IllegalStateException("the task failed");
    try {
      scope.accept(
          () -> {
            if (command.flag("failed", false)) {
              throw failure;
            }
          });
    } catch (IllegalStateException thrown) {
      if (thrown != failure) {
        throw thrown;
      }
      return new Json().put("delivered", true);
    }
    return new Json().put("delivered", false);
  }

  private Json completeTask(Command command) {
    CompleteVerdict verdict =
        pool(command)
            .complete(
                command.text("device"),
                command.text("task"),
                command.optionalNumber("token"),
                outcome(command),
                command.bytes("result"));
    return new Json().put("verdict", verdict);
  }

  private Json renewTask(Command command) {
    var result =
        pool(command)
            .renew(
                command.text("device"),
                command.text("task"),
                command.optionalNumber("token"),
                command.optionalDuration("lease"));
    Json json = new Json().put("verdict", result.verdict());
    return result.verdict() == RenewVerdict.RENEWED
        ? json.put("valid_for", result.validFor())
        : json;
  }

  private Json enqueue(Command command) {
    List<QueuedTask> tasks =
        command.items("tasks").stream()
            .map(t -> new QueuedTask(t.text("device"), t.text("task"), t.bytes("payload")))
            .toList();
    JsonArray statuses = new JsonArray();
    pool(command).enqueue(tasks).forEach(status -> statuses.add(status.name()));
    return new Json().put("statuses", statuses);
  }

  private Json evict(Command command) {
    var result = pool(command).evict(command.text("device"), command.text("task"), "");
    return new Json().put("verdict", result.verdict()).put("replayed", result.replayed());
  }

  private Json cancelTask(Command command) {
    var result = pool(command).cancel(command.text("device"), command.text("task"));
    return new Json().put("verdict", result.verdict()).put("replayed", result.replayed());
  }

  private Json requeueTask(Command command) {
    var verdict = pool(command).requeue(command.text("device"), command.text("task"));
    return new Json().put("verdict", verdict);
  }

  private Json configure(Command command) {
    PoolSettings settings = new PoolSettings();
    if (command.has("capacity")) {
      settings.capacity((int) command.number("capacity"));
    }
    if (command.has("paused")) {
      settings.paused(command.flag("paused", false));
    }
    command.optionalDuration("lease").ifPresent(settings::lease);
    command.optionalDuration("grace").ifPresent(settings::expiryGrace);
    return status(pool(command).configure(settings));
  }

  private static Json status(PoolStatus pool) {
    return new Json()
        .put("capacity", pool.usage().capacity())
        .put("in_use", pool.usage().inUse())
        .put("available", pool.usage().available())
        .put("paused", pool.paused())
        .put("waiters", pool.waiters())
        .digits("queued", pool.queued());
  }

  private Json workerStart(Command command) {
    String handle = command.text("handle");
    Worker.Handler handler =
        permit -> {
          session.event(
              "task",
              new Json()
                  .put("handle", handle)
                  .put("task", permit.task())
                  .put("attempt", permit.attempt()));
          Thread.sleep(command.duration("work").toMillis());
          if (command.flag("fail", false)) {
            throw new IllegalStateException("the scenario asks for a failure");
          }
          return new byte[0];
        };
    Worker.Builder builder =
        pool(command)
            .worker(command.text("device"), handler)
            .onCompleted(
                (permit, verdict) ->
                    session.event(
                        "done",
                        new Json()
                            .put("handle", handle)
                            .put("task", permit.task())
                            .put("verdict", verdict)));
    command.optionalDuration("lease").ifPresent(builder::lease);
    session.keep(command, builder.start());
    return new Json();
  }

  private Json workerStop(Command command) {
    Worker worker = session.object(command, Worker.class);
    worker.close();
    return new Json().put("done", (int) worker.completed());
  }

  private Json watch(Command command) {
    Pool pool = pool(command);
    Watch<PoolEvent> watch =
        command.has("after") ? pool.watch(command.text("after")) : pool.watch();
    session.keep(command, watch);
    RateCommands.follow(
        session,
        watch,
        event ->
            session.event(
                "pool",
                new Json()
                    .put("handle", command.text("handle"))
                    .put("kind", event.kind())
                    .put("cursor", event.cursor())
                    .put("device", event.device())
                    .put("task", event.task())));
    return new Json();
  }
}

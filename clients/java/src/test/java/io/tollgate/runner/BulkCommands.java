package io.tollgate.runner;

import com.google.gson.JsonArray;
import io.tollgate.Bulk;
import io.tollgate.RenewVerdict;
import java.util.List;
import java.util.Map;
import java.util.function.Function;

/** Commands for many tasks. */
final class BulkCommands {
  private final Session session;

  BulkCommands(Session session) {
    this.session = session;
  }

  void register(Map<String, Runner.Action> actions) {
    actions.put("admit_many", this::admit);
    actions.put("complete_many", this::complete);
    actions.put("renew_many", this::renew);
  }

  private Json admit(Command command) {
    List<Bulk.Admit> items =
        command.items("items").stream()
            .map(
                i ->
                    new Bulk.Admit(
                        i.text("pool"),
                        i.text("device"),
                        i.text("task"),
                        i.optionalDuration("lease")))
            .toList();
    return results(session.client(command).bulk().admit(items), AdmissionCommands::answer);
  }

  private Json complete(Command command) {
    List<Bulk.Complete> items =
        command.items("items").stream()
            .map(
                i ->
                    new Bulk.Complete(
                        i.text("pool"),
                        i.text("device"),
                        i.text("task"),
                        i.optionalNumber("token"),
                        AdmissionCommands.outcome(i),
                        i.bytes("result")))
            .toList();
    return results(
        session.client(command).bulk().complete(items),
        verdict -> new Json().put("verdict", verdict));
  }

  private Json renew(Command command) {
    List<Bulk.Renew> items =
        command.items("items").stream()
            .map(
                i ->
                    new Bulk.Renew(
                        i.text("pool"),
                        i.text("device"),
                        i.text("task"),
                        i.optionalNumber("token"),
                        i.optionalDuration("lease")))
            .toList();
    return results(
        session.client(command).bulk().renew(items),
        result -> {
          Json json = new Json().put("verdict", result.verdict());
          return result.verdict() == RenewVerdict.RENEWED
              ? json.put("valid_for", result.validFor())
              : json;
        });
  }

  private static <T> Json results(List<Bulk.Result<T>> results, Function<T, Json> answer) {
    JsonArray array = new JsonArray();
    for (Bulk.Result<T> result : results) {
      Json json = new Json();
      result.error().ifPresent(error -> json.object().add("error", Json.error(error)));
      array.add(result.value().map(answer).orElse(json).object());
    }
    return new Json().put("results", array);
  }
}

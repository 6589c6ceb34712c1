package io.tollgate.runner;

import com.google.gson.JsonArray;
import io.tollgate.AddResult;
import io.tollgate.Allocator;
import io.tollgate.HeldLock;
import io.tollgate.LockOptions;
import io.tollgate.LockResult;
import io.tollgate.Reservation;
import io.tollgate.ReserveOptions;
import io.tollgate.ReserveResult;
import io.tollgate.SequenceOptions;
import io.tollgate.SequenceValues;
import io.tollgate.Stock;
import io.tollgate.StockLevel;
import java.time.Duration;
import java.util.Map;

/** Commands of sequences, locks and stock. */
final class StoreCommands {
  private final Session session;

  StoreCommands(Session session) {
    this.session = session;
  }

  void register(Map<String, Runner.Action> actions) {
    actions.put("next", this::next);
    actions.put(
        "set_floor",
        c ->
            new Json()
                .put(
                    "applied",
                    session
                        .client(c)
                        .sequence(c.text("name"))
                        .setFloor(c.optionalNumber("floor").orElseThrow())));
    actions.put("allocator", this::allocator);
    actions.put("allocate", this::allocate);
    actions.put("lock", this::lock);
    actions.put("lock_state", this::lockState);
    actions.put("unlock", this::unlock);
    actions.put("leave_lock", this::leaveLock);
    actions.put("set_stock", c -> level(new Json(), stock(c).set(c.number("on_hand"))));
    actions.put("add_stock", this::addStock);
    actions.put("stock", this::get);
    actions.put("reserve", this::reserve);
    actions.put("confirm", this::confirm);
    actions.put(
        "cancel_reservation", c -> new Json().put("outcome", stock(c).cancel(c.text("order"))));
    actions.put("leave_reservation", this::leaveReservation);
  }

  private Json next(Command command) {
    SequenceOptions options =
        new SequenceOptions(
            command.number("count", 1),
            command.optionalNumber("step").orElse(1),
            command.optionalNumber("floor"),
            command.optionalText("request_id"));
    SequenceValues values = session.client(command).sequence(command.text("name")).next(options);
    JsonArray serials = new JsonArray();
    values.serials().forEach(serials::add);
    return new Json()
        .digits("first", values.first())
        .digits("last", values.last())
        .digits("step", values.step())
        .put("serials", serials)
        .put("replayed", values.replayed());
  }

  private Json allocator(Command command) {
    int block = command.number("block", 100);
    session.keep(command, session.client(command).sequence(command.text("name")).allocator(block));
    return new Json();
  }

  private Json allocate(Command command) {
    Allocator.Value value = session.object(command, Allocator.class).next();
    Json json = new Json().digits("value", value.value());
    value.serial().ifPresent(serial -> json.put("serial", serial));
    return json;
  }

  private Json lock(Command command) {
    LockOptions options =
        new LockOptions(
            command.optionalText("owner"),
            command.optionalDuration("wait").orElse(Duration.ZERO),
            command.optionalDuration("lease"),
            command.flag("keeper", true));
    LockResult result = session.client(command).lock(command.text("name")).acquire(options);
    if (result instanceof LockResult.Held held) {
      return new Json()
          .put("outcome", "HELD")
          .put("holder", held.holder())
          .put("retry_after", held.retryAfter());
    }
    HeldLock lock = result.acquired().orElseThrow();
    session.keep(command, lock);
    var unused =
        lock.lost()
            .thenAccept(
                reason -> session.event("lost", new Json().put("handle", command.text("handle"))));
    return new Json()
        .put("outcome", "ACQUIRED")
        .digits("token", lock.token())
        .put("replayed", lock.replayed())
        .put("valid_for", lock.remaining());
  }

  private Json lockState(Command command) {
    HeldLock lock = session.object(command, HeldLock.class);
    return new Json()
        .put("valid", lock.valid())
        .put("lost", lock.isLost())
        .put("valid_for", lock.remaining())
        .digits("token", lock.token());
  }

  private Json unlock(Command command) {
    return new Json().put("outcome", session.object(command, HeldLock.class).release());
  }

  private Json leaveLock(Command command) {
    return AdmissionCommands.left(
        command,
        body -> {
          HeldLock lock = session.object(command, HeldLock.class);
          try (lock) {
            body.run();
          }
        });
  }

  private Stock stock(Command command) {
    return session.client(command).stock(command.text("sku"));
  }

  private static Json level(Json json, StockLevel level) {
    return json.digits("on_hand", level.onHand())
        .digits("available", level.available())
        .digits("reserved", level.reserved())
        .digits("sold", level.sold());
  }

  private Json get(Command command) {
    StockLevel level = stock(command).get();
    return level(new Json().digits("holds", level.holds().orElseThrow()), level);
  }

  private Json addStock(Command command) {
    long delta = command.signed("delta");
    AddResult result =
        command.has("request_id")
            ? stock(command).add(delta, command.text("request_id"))
            : stock(command).add(delta);
    return level(new Json().put("replayed", result.replayed()), result.stock());
  }

  private Json reserve(Command command) {
    ReserveOptions options =
        new ReserveOptions(
            command.optionalDuration("hold"),
            command.optionalText("buyer"),
            command.optionalNumber("buyer_limit"));
    ReserveResult result =
        stock(command).reserve(command.text("order"), command.number("quantity"), options);
    Json json = new Json().put("replayed", false);
    if (result instanceof ReserveResult.Reserved reserved) {
      Reservation reservation = reserved.reservation();
      session.keep(command, reservation);
      return json.put("outcome", "RESERVED")
          .put("replayed", reservation.replayed())
          .put("valid_for", reservation.remaining());
    }
    if (result instanceof ReserveResult.Shortage shortage) {
      shortage.retryAfter().ifPresent(pause -> json.put("retry_after", pause));
      return json.put("outcome", "SHORT");
    }
    return json.put(
        "outcome", result instanceof ReserveResult.BuyerLimit ? "BUYER_LIMIT" : "ALREADY_SETTLED");
  }

  private Json confirm(Command command) {
    var result = stock(command).confirm(command.text("order"));
    return new Json().put("outcome", result.outcome()).put("retaken", result.retaken());
  }

  private Json leaveReservation(Command command) {
    return AdmissionCommands.left(
        command,
        body -> {
          try (Reservation reservation = session.object(command, Reservation.class)) {
            if (command.flag("confirm", false)) {
              var unused = reservation.confirm();
            }
            body.run();
          }
        });
  }
}

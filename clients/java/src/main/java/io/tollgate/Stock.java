package io.tollgate;

import io.grpc.MethodDescriptor;
import io.tollgate.v1.AddStockRequest;
import io.tollgate.v1.CancelReservationRequest;
import io.tollgate.v1.ConfirmReservationRequest;
import io.tollgate.v1.GetStockRequest;
import io.tollgate.v1.ReservationState;
import io.tollgate.v1.ReserveStockRequest;
import io.tollgate.v1.ReserveStockResponse;
import io.tollgate.v1.SetStockRequest;
import io.tollgate.v1.StockServiceGrpc;
import java.time.Duration;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.UUID;

/** The stock of one sku. */
public final class Stock {
  private final Core core;
  private final String sku;

  Stock(Core core, String sku) {
    this.core = core;
    this.sku = sku;
  }

  /** Returns the sku. */
  public String sku() {
    return sku;
  }

  /**
   * Sets the quantity on hand, 0 to 2^53-1, reserved quantities included. Never retried: after an
   * error with an unknown outcome, read the stock first.
   */
  public StockLevel set(long onHand) {
    var request = SetStockRequest.newBuilder().setSku(sku).setOnHand(onHand).build();
    return StockLevel.of(
        call(StockServiceGrpc.getSetStockMethod(), CallPlan.ONCE, request).answer().getStock());
  }

  /** Adds to the quantity on hand, or subtracts from it; with a new request id. */
  public AddResult add(long delta) {
    return add(delta, UUID.randomUUID().toString());
  }

  /** Adds with a request id of the caller: a repeat within 5 minutes adds nothing. */
  public AddResult add(long delta, String requestId) {
    CallPlan plan = requestId.isEmpty() ? CallPlan.ONCE : CallPlan.SAFE;
    var request =
        AddStockRequest.newBuilder().setSku(sku).setDelta(delta).setRequestId(requestId).build();
    var answer = call(StockServiceGrpc.getAddStockMethod(), plan, request).answer();
    return new AddResult(StockLevel.of(answer.getStock()), answer.getReplayed());
  }

  /**
   * Returns the quantities and the number of held reservations. Fails with NOT_FOUND before the
   * first {@link #set}.
   */
  public StockLevel get() {
    var request = GetStockRequest.newBuilder().setSku(sku).build();
    var answer = call(StockServiceGrpc.getGetStockMethod(), CallPlan.SAFE, request).answer();
    return StockLevel.of(answer.getStock(), OptionalLong.of(answer.getHolds()));
  }

  /** Reserves a quantity with the default options. */
  public ReserveResult reserve(String order, long quantity) {
    return reserve(order, quantity, ReserveOptions.defaults());
  }

  /**
   * Reserves a quantity, 1 to 1,000,000,000, for an order. Can be repeated.
   *
   * @throws QuantityDiffersException if the order holds another quantity
   */
  public ReserveResult reserve(String order, long quantity, ReserveOptions options) {
    var request =
        ReserveStockRequest.newBuilder().setSku(sku).setOrderId(order).setQuantity(quantity);
    var unused = Op.await(core.claims().settle(Claims.key("order", sku, order)));
    options.hold().ifPresent(length -> request.setHoldDuration(Times.proto(length)));
    options.buyer().ifPresent(request::setBuyerId);
    options.buyerLimit().ifPresent(request::setBuyerLimit);
    return result(call(StockServiceGrpc.getReserveStockMethod(), CallPlan.SAFE, request.build()));
  }

  /**
   * Confirms a paid reservation. A late payment, after the hold has lapsed, takes the quantity
   * again if that is available.
   */
  public Confirmation confirm(String order) {
    var request = ConfirmReservationRequest.newBuilder().setSku(sku).setOrderId(order).build();
    var answer =
        call(StockServiceGrpc.getConfirmReservationMethod(), CallPlan.SAFE, request).answer();
    return new Confirmation(
        Enums.of(ConfirmOutcome.class, "CONFIRM_OUTCOME_", answer.getOutcome()),
        answer.getRetaken(),
        StockLevel.of(answer.getStock()));
  }

  /** Cancels a reservation: its quantity is available again. */
  public CancelOutcome cancel(String order) {
    var request = CancelReservationRequest.newBuilder().setSku(sku).setOrderId(order).build();
    var answer =
        call(StockServiceGrpc.getCancelReservationMethod(), CallPlan.SAFE, request).answer();
    return Enums.of(CancelOutcome.class, "CANCEL_OUTCOME_", answer.getOutcome());
  }

  private ReserveResult result(Reply<ReserveStockResponse> reply) {
    ReserveStockResponse answer = reply.answer();
    StockLevel level = StockLevel.of(answer.getStock());
    return switch (answer.getOutcome()) {
      case RESERVE_OUTCOME_RESERVED ->
          new ReserveResult.Reserved(
              new Reservation(
                  core,
                  this,
                  answer.getReservation(),
                  reply.sentNanos(),
                  answer.getReplayed(),
                  level));
      case RESERVE_OUTCOME_SHORT -> {
        Duration pause = Times.duration(answer.getRetryAfter());
        yield new ReserveResult.Shortage(
            answer.hasRetryAfter() ? Optional.of(pause) : Optional.empty(), level);
      }
      case RESERVE_OUTCOME_BUYER_LIMIT ->
          new ReserveResult.BuyerLimit(answer.getBuyerQuantity(), level);
      case RESERVE_OUTCOME_QUANTITY_DIFFERS ->
          throw new QuantityDiffersException(
              answer.getReservation().getOrderId(), answer.getReservation().getQuantity());
      case RESERVE_OUTCOME_ALREADY_SETTLED ->
          new ReserveResult.AlreadySettled(
              answer.getReservation().getState() == ReservationState.RESERVATION_STATE_CONFIRMED,
              level);
      default ->
          throw TollgateException.unknownAnswer("ReserveOutcome " + answer.getOutcomeValue());
    };
  }

  private <Q, A> Reply<A> call(MethodDescriptor<Q, A> method, CallPlan plan, Q request) {
    return Op.await(core.calls().send(method, plan, request));
  }
}

package io.tollgate;

import io.tollgate.v1.CancelReservationRequest;
import io.tollgate.v1.StockServiceGrpc;
import java.time.Duration;

/**
 * A quantity held for an order. Closing it cancels the reservation, unless {@link #confirm()} was
 * called. After a confirmation with an unknown outcome, the hold is left to lapse.
 */
public final class Reservation implements AutoCloseable {
  private final Core core;
  private final Stock stock;
  private final io.tollgate.v1.Reservation held;
  private final boolean replayed;
  private final StockLevel level;
  private final long expiry;
  private boolean settled;

  Reservation(
      Core core,
      Stock stock,
      io.tollgate.v1.Reservation held,
      long sentNanos,
      boolean replayed,
      StockLevel level) {
    this.core = core;
    this.stock = stock;
    this.held = held;
    this.replayed = replayed;
    this.level = level;
    this.expiry = sentNanos + Times.nanos(Times.duration(held.getExpiresIn()));
  }

  /** Returns the order. */
  public String order() {
    return held.getOrderId();
  }

  /** Returns the quantity. */
  public long quantity() {
    return held.getQuantity();
  }

  /** Returns whether an earlier call reserved it for this order. */
  public boolean replayed() {
    return replayed;
  }

  /** Returns the quantities of the sku after the reservation. */
  public StockLevel stock() {
    return level;
  }

  /** Returns the time until the hold ends; zero after that. */
  public Duration remaining() {
    return Duration.ofNanos(Math.max(0, expiry - core.clock().getAsLong()));
  }

  /** Confirms the paid reservation: its quantity is sold. */
  public Confirmation confirm() {
    synchronized (this) {
      settled = true;
    }
    return stock.confirm(order());
  }

  /** Cancels the reservation: its quantity is available again. */
  public CancelOutcome cancel() {
    CancelOutcome outcome = stock.cancel(order());
    synchronized (this) {
      settled = true;
    }
    return outcome;
  }

  /**
   * Cancels unless it was confirmed or cancelled. Takes at most the deadline of one call: without
   * an answer the cancellation continues in the background until the hold ends.
   */
  @Override
  public void close() {
    synchronized (this) {
      if (settled) {
        return;
      }
      settled = true;
    }
    boolean interrupted = Thread.interrupted();
    try {
      var request =
          CancelReservationRequest.newBuilder().setSku(stock.sku()).setOrderId(order()).build();
      var unused =
          core.claims()
              .leave(
                  Claims.key("order", stock.sku(), order()),
                  expiry,
                  StockServiceGrpc.getCancelReservationMethod(),
                  CallPlan.ONCE,
                  request);
    } catch (TollgateException lapses) {
      return;
    } finally {
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }
}

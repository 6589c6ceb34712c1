package io.tollgate;

import io.grpc.Status;
import java.io.Serial;
import java.util.List;

/**
 * A reservation for an order that holds a different quantity. Nothing changed: confirm or cancel
 * the order, or reserve under another one.
 *
 * <p>The code is FAILED_PRECONDITION, the reason {@code QUANTITY_DIFFERS}.
 */
public final class QuantityDiffersException extends TollgateException {
  @Serial private static final long serialVersionUID = 1L;

  private final long heldQuantity;

  QuantityDiffersException(String order, long heldQuantity) {
    super(
        Status.Code.FAILED_PRECONDITION,
        "QUANTITY_DIFFERS",
        List.of(),
        null,
        "FAILED_PRECONDITION: order "
            + order
            + " holds a quantity of "
            + heldQuantity
            + "; nothing changed",
        null);
    this.heldQuantity = heldQuantity;
  }

  /** Returns the quantity that the order holds. */
  public long heldQuantity() {
    return heldQuantity;
  }
}

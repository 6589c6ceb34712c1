package io.tollgate;

import java.util.OptionalLong;

/**
 * Quantities of a sku, each 0 to 2^53-1.
 *
 * @param onHand quantity on hand, reserved ones included
 * @param available quantity that can be reserved
 * @param reserved quantity held for orders
 * @param sold quantity confirmed since the sku was created
 * @param holds number of reservations that are held; only {@link Stock#get} returns it
 */
public record StockLevel(
    long onHand, long available, long reserved, long sold, OptionalLong holds) {
  static StockLevel of(io.tollgate.v1.Stock stock) {
    return of(stock, OptionalLong.empty());
  }

  static StockLevel of(io.tollgate.v1.Stock stock, OptionalLong holds) {
    return new StockLevel(
        stock.getOnHand(), stock.getAvailable(), stock.getReserved(), stock.getSold(), holds);
  }
}

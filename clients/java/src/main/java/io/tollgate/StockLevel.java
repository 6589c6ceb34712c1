package io.tollgate;

/**
 * Quantities of a sku, each 0 to 2^53-1.
 *
 * @param onHand quantity on hand, reserved ones included
 * @param available quantity that can be reserved
 * @param reserved quantity held for orders
 * @param sold quantity confirmed since the sku was created
 */
public record StockLevel(long onHand, long available, long reserved, long sold) {
  static StockLevel of(io.tollgate.v1.Stock stock) {
    return new StockLevel(
        stock.getOnHand(), stock.getAvailable(), stock.getReserved(), stock.getSold());
  }
}

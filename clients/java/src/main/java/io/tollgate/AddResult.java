package io.tollgate;

/**
 * Answer to an addition.
 *
 * @param stock the quantities after the addition
 * @param replayed whether an earlier call with this request id added
 */
public record AddResult(StockLevel stock, boolean replayed) {}

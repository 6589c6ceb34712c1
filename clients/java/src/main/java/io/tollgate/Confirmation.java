package io.tollgate;

/**
 * Answer to a confirmation.
 *
 * @param outcome the outcome
 * @param retaken whether the hold had lapsed and the quantity was taken again
 * @param stock the quantities now
 */
public record Confirmation(ConfirmOutcome outcome, boolean retaken, StockLevel stock) {}

package io.tollgate;

/** Token bucket of retries: each call adds a fraction of a token, each retry takes one. */
final class RetryBudget {
  private final double share;
  private final double reserve;
  private double tokens;

  RetryBudget(double share, int reserve) {
    this.share = share;
    this.reserve = reserve;
    this.tokens = reserve;
  }

  synchronized void called() {
    tokens = Math.min(reserve, tokens + share);
  }

  synchronized boolean take() {
    if (tokens < 1) {
      return false;
    }
    tokens -= 1;
    return true;
  }
}

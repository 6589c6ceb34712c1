/** Options of a retry budget. */
export interface RetryBudgetOptions {
  /** Retries that each call adds to the budget, 0 to 1. Default: 0.2. */
  readonly ratio?: number;
  /** Retries in reserve, at least 0. Default: 10. */
  readonly reserve?: number;
}

/**
 * Limits the retries of a connection, so that retries cannot multiply the load of servers in
 * trouble. A token bucket: it starts with `reserve` tokens, each call adds `ratio`, each retry
 * takes 1.
 */
export class RetryBudget {
  readonly #ratio: number;
  readonly #reserve: number;
  #tokens: number;

  constructor(options: RetryBudgetOptions = {}) {
    this.#ratio = options.ratio ?? 0.2;
    this.#reserve = options.reserve ?? 10;
    if (!(this.#ratio >= 0 && this.#ratio <= 1)) {
      throw new RangeError(`retryBudget.ratio is ${String(this.#ratio)}; expected 0 to 1`);
    }
    if (!(this.#reserve >= 0)) {
      throw new RangeError(`retryBudget.reserve is ${String(this.#reserve)}; expected 0 or more`);
    }
    this.#tokens = this.#reserve;
  }

  /** Counts a call. */
  deposit(): void {
    this.#tokens = Math.min(this.#tokens + this.#ratio, Math.max(this.#reserve, 1));
  }

  /** Takes a retry. Returns false if the budget is exhausted. */
  withdraw(): boolean {
    if (this.#tokens < 1) return false;
    this.#tokens -= 1;
    return true;
  }
}

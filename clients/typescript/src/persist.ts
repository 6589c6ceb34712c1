import type { Caller } from "./core/caller.js";
import { asTollgateError } from "./core/errors.js";
import type { CallOptions } from "./core/options.js";

/**
 * Repeats a call until its answer is known: for results, which are safe to repeat and must not be
 * lost. Pauses with backoff, outside the retry budget. Errors other than UNAVAILABLE,
 * DEADLINE_EXCEEDED and RESOURCE_EXHAUSTED with RetryInfo are thrown immediately.
 */
export async function persist<T>(caller: Caller, options: CallOptions, call: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await call();
    } catch (thrown) {
      const error = asTollgateError(thrown);
      if (!error.retryable) throw error;
      await caller.sleep(caller.pauseMs(attempt, error), options.signal);
    }
  }
}

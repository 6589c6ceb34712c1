import { TollgateError } from "../src/index.js";
import type { Answer } from "./session.js";

/** An error as the scenarios expect it. */
export function errorAnswer(error: unknown): Answer {
  if (error instanceof TollgateError) {
    const { code, reason, violations, message, retryAfterMs } = error;
    const retryAfter = retryAfterMs === undefined ? undefined : retryAfterMs / 1000;
    return { code, reason, violations, message, retry_after: retryAfter };
  }
  const message = error instanceof Error ? error.message : String(error);
  return { code: "RUNNER", reason: "", violations: [], message };
}

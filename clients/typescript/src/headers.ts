import type { RateAnswer } from "./rates.js";

/** Headers of an HTTP response, by lower-case name. */
export type RateLimitHeaders = Readonly<Record<string, string>>;

/**
 * Returns the headers for an answer, after draft-ietf-httpapi-ratelimit-headers: `ratelimit` with
 * the remaining calls `r` and the seconds until the reset `t`, `ratelimit-policy` with the quota `q`
 * and the window `w` in seconds. A refusal also has `retry-after`. Seconds are rounded up. A limit
 * without a name is called `default`.
 */
export function rateLimitHeaders(answer: RateAnswer): RateLimitHeaders {
  const headers: Record<string, string> = {};
  if (answer.limits.length > 0) {
    headers["ratelimit"] = answer.limits
      .map(
        ({ name, remaining, resetAfterMs }) =>
          `${quoted(name)};r=${String(remaining)};t=${seconds(resetAfterMs)}`,
      )
      .join(", ");
    headers["ratelimit-policy"] = answer.limits
      .map(({ name, max, windowMs }) => `${quoted(name)};q=${String(max)};w=${seconds(windowMs)}`)
      .join(", ");
  }
  if (!answer.allowed) headers["retry-after"] = seconds(Math.max(answer.retryAfterMs ?? 0, 1));
  return headers;
}

/** A name as a string of a structured field, which is ASCII: other characters are %-encoded. */
function quoted(name: string): string {
  const ascii = name.replace(/[^\x20-\x7e]+/gu, encodeURIComponent);
  return `"${(ascii === "" ? "default" : ascii).replace(/["\\]/gu, "\\$&")}"`;
}

function seconds(ms: number): string {
  return String(Math.ceil(ms / 1000));
}

import type { Request, RequestHandler } from "express";
import { rateLimitHeaders } from "./headers.js";
import { unavailable } from "./middleware.js";
import type { Limiter } from "./rates.js";

/** Options of the middleware. */
export interface RateLimitOptions {
  /** Returns the key of a request; undefined lets the request pass unchecked. Default: `req.ip`. */
  readonly key?: (request: Request) => string | undefined;
  /** Returns the cost of a request. Default: 1. */
  readonly cost?: (request: Request) => bigint | number;
}

/**
 * Middleware for Express 5. Refuses a request with 429. All checked responses have the headers
 * `RateLimit` and `RateLimit-Policy`, refusals also `Retry-After`.
 *
 * If the server of Tollgate cannot decide, the `onFailure` of the limiter decides: `open` lets the
 * request pass, `closed` answers 429, `error` passes an error with status 503 to Express.
 */
export function rateLimit(limiter: Limiter, options: RateLimitOptions = {}): RequestHandler {
  const { key = (request: Request) => request.ip, cost } = options;
  return async (request, response, next) => {
    const name = key(request);
    if (name === undefined) {
      next();
      return;
    }
    const answer = await limiter.check(name, { cost: cost?.(request) }).catch(unavailable);
    response.set(rateLimitHeaders(answer));
    if (answer.allowed) next();
    else response.status(429).type("text/plain").send("Too Many Requests\n");
  };
}

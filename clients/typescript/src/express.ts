import type { Request, RequestHandler } from "express";
import { addressKey } from "./address.js";
import { rateLimitHeaders } from "./headers.js";
import { unavailable } from "./middleware.js";
import type { Limiter } from "./rates.js";

/** Options of the middleware. */
export interface RateLimitOptions {
  /**
   * Returns the key of a request; undefined lets the request pass unchecked. Default: `addressKey` of
   * `req.ip`.
   */
  readonly key?: (request: Request) => string | undefined;
  /**
   * Bits of an IPv6 address that the default key has, 1 to 128. Default: 64, since one host usually owns
   * a whole /64.
   */
  readonly ipv6Prefix?: number;
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
  const {
    ipv6Prefix,
    key = ({ ip }: Request) => (ip === undefined ? ip : addressKey(ip, ipv6Prefix)),
    cost,
  } = options;
  return async (request, response, next) => {
    const name = key(request);
    if (name === undefined) {
      next();
      return;
    }
    const answer = await limiter.check(name, { cost: cost?.(request) }).catch(unavailable(limiter));
    response.set(rateLimitHeaders(answer));
    if (answer.allowed) next();
    else response.status(429).type("text/plain").send("Too Many Requests\n");
  };
}

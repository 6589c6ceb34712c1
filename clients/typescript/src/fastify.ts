import type { FastifyReply, FastifyRequest } from "fastify";
import { addressKey } from "./address.js";
import { rateLimitHeaders } from "./headers.js";
import { unavailable } from "./middleware.js";
import type { Limiter } from "./rates.js";

/** Options of the hook. */
export interface RateLimitOptions {
  /**
   * Returns the key of a request; undefined lets the request pass unchecked. Default: `addressKey` of
   * `request.ip`.
   */
  readonly key?: (request: FastifyRequest) => string | undefined;
  /**
   * Bits of an IPv6 address in the default key, 1 to 128. Default: 64, since one host usually owns
   * a whole /64.
   */
  readonly ipv6Prefix?: number;
  /** Returns the cost of a request. Default: 1. */
  readonly cost?: (request: FastifyRequest) => bigint | number;
}

/**
 * Hook for Fastify 5: `app.addHook("onRequest", rateLimit(limiter))`. Refuses a request with 429. All
 * checked responses have the headers `RateLimit` and `RateLimit-Policy`, refusals also `Retry-After`.
 *
 * If the server of Tollgate cannot decide, the `onFailure` of the limiter decides: `open` lets the
 * request pass, `closed` answers 429, `error` throws an error with status 503.
 */
export function rateLimit(
  limiter: Limiter,
  options: RateLimitOptions = {},
): (request: FastifyRequest, reply: FastifyReply) => Promise<void> {
  const { ipv6Prefix, key = ({ ip }: FastifyRequest) => addressKey(ip, ipv6Prefix), cost } = options;
  return async (request, reply) => {
    const name = key(request);
    if (name === undefined) return;
    const answer = await limiter.check(name, { cost: cost?.(request) }).catch(unavailable(limiter));
    reply.headers(rateLimitHeaders(answer));
    if (!answer.allowed) await reply.code(429).type("text/plain").send("Too Many Requests\n");
  };
}

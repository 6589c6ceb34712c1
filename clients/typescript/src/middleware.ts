import { asTollgateError } from "./core/errors.js";
import type { Limiter } from "./rates.js";

/** Returns a function that logs the error of a check and throws it with the status 503. */
export function unavailable(limiter: Limiter): (thrown: unknown) => never {
  return (thrown) => {
    limiter.log("the request gets 503", thrown);
    throw Object.assign(new Error("The rate limit cannot be checked.", { cause: asTollgateError(thrown) }), {
      status: 503,
      statusCode: 503,
    });
  };
}

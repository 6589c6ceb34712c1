import { asTollgateError } from "./core/errors.js";

/** Throws the error of a check with the status that web frameworks answer: 503. */
export function unavailable(thrown: unknown): never {
  const error = asTollgateError(thrown);
  throw Object.assign(new Error("The rate limit cannot be checked.", { cause: error }), {
    status: 503,
    statusCode: 503,
  });
}

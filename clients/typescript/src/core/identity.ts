import { randomUUID } from "node:crypto";

/**
 * Returns the request id of a call, or a random one if it is absent or empty. A request without an
 * id must not be sent twice: each repeat counts again.
 */
export function requestIdOf(given: string | undefined): string {
  return given === undefined || given === "" ? randomUUID() : given;
}

package io.tollgate;

/**
 * An answer.
 *
 * @param answer the message
 * @param sentNanos reading of the clock before the answered request was sent
 * @param server the server that answered
 */
record Reply<A>(A answer, long sentNanos, Endpoint server) {}

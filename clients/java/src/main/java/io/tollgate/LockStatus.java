package io.tollgate;

/**
 * A lock as it is now.
 *
 * @param held whether an owner holds it
 * @param owner the owner; empty if it is free
 * @param token the fencing token of its lease, as unsigned number; 0 if it is free
 * @param waiters number of calls that wait for it
 */
public record LockStatus(boolean held, String owner, long token, int waiters) {}

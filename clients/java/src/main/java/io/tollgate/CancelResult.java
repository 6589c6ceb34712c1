package io.tollgate;

/**
 * Answer to a cancellation.
 *
 * @param verdict the verdict
 * @param replayed whether an earlier call had cancelled the task
 */
public record CancelResult(CancelVerdict verdict, boolean replayed) {}

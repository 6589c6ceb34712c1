package io.tollgate;

/**
 * Answer to an eviction.
 *
 * @param verdict the verdict
 * @param replayed whether an earlier call had evicted the task
 */
public record EvictResult(EvictVerdict verdict, boolean replayed) {}

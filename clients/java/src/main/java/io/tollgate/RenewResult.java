package io.tollgate;

import java.time.Duration;

/**
 * Answer to a renewal.
 *
 * @param verdict the verdict
 * @param validFor time left, counted from before the request; zero unless renewed
 */
public record RenewResult(RenewVerdict verdict, Duration validFor) {}

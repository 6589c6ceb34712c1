package io.tollgate;

import java.time.Instant;
import java.util.Optional;

/**
 * The last value of a sequence.
 *
 * @param last the value; 0 if none was given out
 * @param updateTime when it was given out; empty before the first value
 * @param serial the value in the layout of the name; empty without a layout
 */
public record SequenceStatus(long last, Optional<Instant> updateTime, String serial) {}

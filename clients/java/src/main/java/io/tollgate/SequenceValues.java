package io.tollgate;

import io.tollgate.v1.NextSequenceResponse;
import java.util.List;

/**
 * Values of a sequence: first, first + step, … last. With a calendar the values follow valid times,
 * and {@code serials} has all of them.
 *
 * @param first the first value
 * @param last the last value
 * @param step distance between values
 * @param serials the values in the layout of the name, in order; empty without a layout
 * @param floorApplied whether the floor was above the next value
 * @param replayed whether an earlier call with this request id got these values
 */
public record SequenceValues(
    long first,
    long last,
    long step,
    List<String> serials,
    boolean floorApplied,
    boolean replayed) {
  static SequenceValues of(NextSequenceResponse answer) {
    return new SequenceValues(
        answer.getFirst(),
        answer.getLast(),
        answer.getStep(),
        List.copyOf(answer.getSerialsList()),
        answer.getFloorApplied(),
        answer.getReplayed());
  }
}

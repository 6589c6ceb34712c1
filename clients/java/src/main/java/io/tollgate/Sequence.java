package io.tollgate;

import io.tollgate.v1.GetSequenceRequest;
import io.tollgate.v1.NextSequenceRequest;
import io.tollgate.v1.SequenceServiceGrpc;
import io.tollgate.v1.SetSequenceFloorRequest;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;

/** A sequence, whose values increase and never repeat; gaps are possible. */
public final class Sequence {
  private final Core core;
  private final String name;

  Sequence(Core core, String name) {
    this.core = core;
    this.name = name;
  }

  /** Returns the next value. */
  public long next() {
    return next(SequenceOptions.defaults()).first();
  }

  /** Returns the next values. */
  public SequenceValues next(SequenceOptions options) {
    return Op.await(nextAsync(options));
  }

  /** Returns the next values without blocking. With an empty request id there is no retry. */
  public CompletableFuture<SequenceValues> nextAsync(SequenceOptions options) {
    boolean repeatable = !options.requestId().equals(Optional.of(""));
    var request =
        NextSequenceRequest.newBuilder()
            .setName(name)
            .setCount(options.count())
            .setStep(options.step())
            .setRequestId(options.requestId().orElseGet(() -> UUID.randomUUID().toString()));
    options.floor().ifPresent(request::setFloor);
    return core.calls()
        .send(
            SequenceServiceGrpc.getNextSequenceMethod(),
            repeatable ? CallPlan.SAFE : CallPlan.ONCE,
            request.build())
        .map(reply -> SequenceValues.of(reply.answer()));
  }

  /** Returns the last value that was handed out. */
  public SequenceStatus status() {
    var request = GetSequenceRequest.newBuilder().setName(name).build();
    var answer =
        Op.await(
                core.calls()
                    .send(SequenceServiceGrpc.getGetSequenceMethod(), CallPlan.SAFE, request))
            .answer();
    return new SequenceStatus(
        answer.getLast(),
        answer.hasUpdateTime()
            ? Optional.of(Times.instant(answer.getUpdateTime()))
            : Optional.empty(),
        answer.getSerial());
  }

  /**
   * Moves the sequence forward, so that its next value is at least the floor, 0 to 2^63-1. Needs
   * the permission {@code manage}.
   *
   * @return false if the floor is not above the last value: nothing changed
   */
  public boolean setFloor(long floor) {
    var request = SetSequenceFloorRequest.newBuilder().setName(name).setFloor(floor).build();
    return Op.await(
            core.calls()
                .send(SequenceServiceGrpc.getSetSequenceFloorMethod(), CallPlan.SAFE, request))
        .answer()
        .getApplied();
  }

  /**
   * Returns an allocator that hands out values from blocks of the given size, 1 to 10,000. The
   * values of a block that are not used become a gap.
   */
  public Allocator allocator(int block) {
    return new Allocator(this, block);
  }
}

package io.tollgate;

import io.grpc.MethodDescriptor;
import io.tollgate.v1.AdmissionServiceGrpc;
import io.tollgate.v1.AdmitTaskRequest;
import io.tollgate.v1.AdmitTasksRequest;
import io.tollgate.v1.CompleteTasksRequest;
import io.tollgate.v1.RenewTasksRequest;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.function.Function;

/**
 * Calls for many tasks, possibly of several pools. Lists of more than 1,000 items become several
 * calls in their order. An item that was not decided has an error in its place. If a whole call
 * fails, all of its items have the error of the call. A call has five times the deadline of a
 * single one.
 *
 * <p>No keeper renews the leases of bulk calls: renew them with {@link #renew}.
 */
public final class Bulk {
  private static final int BATCH = 1_000;

  /**
   * A task to admit.
   *
   * @param pool the pool
   * @param device the device
   * @param task the task
   * @param lease length of the lease; empty for that of the pool
   */
  public record Admit(String pool, String device, String task, Optional<Duration> lease) {}

  /**
   * A result to report.
   *
   * @param pool the pool
   * @param device the device
   * @param task the task
   * @param token the fencing token; empty: not compared
   * @param outcome how the task went
   * @param result the result, at most 65,536 bytes
   */
  @SuppressWarnings("ArrayRecordComponent") // the library only reads the result
  public record Complete(
      String pool, String device, String task, OptionalLong token, Outcome outcome, byte[] result) {
    /** Creates a report of success without a result. */
    public Complete(String pool, String device, String task, OptionalLong token) {
      this(pool, device, task, token, Outcome.SUCCEEDED, new byte[0]);
    }
  }

  /**
   * A lease to renew.
   *
   * @param pool the pool
   * @param device the device
   * @param task the task
   * @param token the fencing token; empty: not compared
   * @param lease new length; empty for that of the pool
   */
  public record Renew(
      String pool, String device, String task, OptionalLong token, Optional<Duration> lease) {}

  /**
   * Answer to one item.
   *
   * @param value the answer, if the item was decided
   * @param error the error, if it was not
   */
  public record Result<T>(Optional<T> value, Optional<TollgateException> error) {
    static <T> Result<T> of(T value) {
      return new Result<>(Optional.of(value), Optional.empty());
    }

    static <T> Result<T> failed(TollgateException error) {
      return new Result<>(Optional.empty(), Optional.of(error));
    }

    /** Returns the answer, or throws the error. */
    public T get() {
      return value.orElseThrow(() -> error.orElseThrow().forCaller());
    }
  }

  private final Core core;

  Bulk(Core core) {
    this.core = core;
  }

  /** Asks for a slot for each task. The permits have no keeper. */
  public List<Result<Admission>> admit(List<Admit> items) {
    return inBatches(items, this::admitBatch);
  }

  /** Reports a result for each task. */
  public List<Result<CompleteVerdict>> complete(List<Complete> items) {
    return inBatches(items, this::completeBatch);
  }

  /** Renews the lease of each task. */
  public List<Result<RenewResult>> renew(List<Renew> items) {
    return inBatches(items, this::renewBatch);
  }

  private List<Result<Admission>> admitBatch(List<Admit> items) {
    var request = AdmitTasksRequest.newBuilder();
    for (Admit item : items) {
      var one =
          AdmitTaskRequest.newBuilder()
              .setPool(item.pool())
              .setDeviceId(item.device())
              .setTaskId(item.task());
      item.lease().ifPresent(length -> one.setLeaseDuration(Times.proto(length)));
      request.addRequests(one);
    }
    AdmitOptions options = AdmitOptions.defaults().withKeeper(false);
    return send(
        AdmissionServiceGrpc.getAdmitTasksMethod(),
        request.build(),
        reply ->
            results(
                reply.answer().getResultsList(),
                r -> r.hasError() ? r.getError() : null,
                r ->
                    Admitter.admission(
                        core,
                        options,
                        new Reply<>(r.getResponse(), reply.sentNanos(), reply.server()))));
  }

  private List<Result<CompleteVerdict>> completeBatch(List<Complete> items) {
    var request = CompleteTasksRequest.newBuilder();
    for (Complete item : items) {
      request.addRequests(Verdicts.message(item));
    }
    return send(
        AdmissionServiceGrpc.getCompleteTasksMethod(),
        request.build(),
        reply ->
            results(
                reply.answer().getResultsList(),
                r -> r.hasError() ? r.getError() : null,
                r -> Verdicts.complete(r.getResponse())));
  }

  private List<Result<RenewResult>> renewBatch(List<Renew> items) {
    var request = RenewTasksRequest.newBuilder();
    for (Renew item : items) {
      request.addRequests(Verdicts.message(item));
    }
    return send(
        AdmissionServiceGrpc.getRenewTasksMethod(),
        request.build(),
        reply ->
            results(
                reply.answer().getResultsList(),
                r -> r.hasError() ? r.getError() : null,
                r ->
                    Verdicts.renewal(
                        core, new Reply<>(r.getResponse(), reply.sentNanos(), reply.server()))));
  }

  private <Q, A, T> List<Result<T>> send(
      MethodDescriptor<Q, A> method, Q request, Function<Reply<A>, List<Result<T>>> convert) {
    return convert.apply(Op.await(core.calls().send(method, CallPlan.BULK, request)));
  }

  private static <R, T> List<Result<T>> results(
      List<R> answers, Function<R, io.tollgate.v1.ItemError> error, Function<R, T> value) {
    List<Result<T>> results = new ArrayList<>(answers.size());
    for (R answer : answers) {
      io.tollgate.v1.ItemError failure = error.apply(answer);
      try {
        results.add(
            failure == null
                ? Result.of(value.apply(answer))
                : Result.failed(TollgateException.from(failure)));
      } catch (TollgateException unknown) {
        results.add(Result.failed(unknown));
      }
    }
    return results;
  }

  private static <I, T> List<Result<T>> inBatches(
      List<I> items, Function<List<I>, List<Result<T>>> batch) {
    List<Result<T>> results = new ArrayList<>(items.size());
    for (int from = 0; from < items.size(); from += BATCH) {
      List<I> part = items.subList(from, Math.min(items.size(), from + BATCH));
      try {
        results.addAll(batch.apply(part));
      } catch (TollgateException failure) {
        part.forEach(item -> results.add(Result.failed(failure)));
      }
    }
    return results;
  }
}

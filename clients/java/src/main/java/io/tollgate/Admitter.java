package io.tollgate;

import com.google.protobuf.ByteString;
import io.tollgate.v1.AdmissionServiceGrpc;
import io.tollgate.v1.AdmitTaskRequest;
import io.tollgate.v1.AdmitTaskResponse;
import java.time.Duration;

/** One admission. */
final class Admitter {
  /**
   * A granted lease.
   *
   * @param lease the lease
   * @param sentNanos reading of the clock from which {@code expires_in} counts
   * @param replayed whether an earlier call was granted it
   * @param payload payload of a queued task
   * @param attempt dispatches of a queued task
   * @param server the server to which the lease belongs, or null for all of them
   */
  record Grant(
      io.tollgate.v1.Lease lease,
      long sentNanos,
      boolean replayed,
      ByteString payload,
      int attempt,
      Endpoint server) {}

  private final Core core;
  private final AdmitTaskRequest request;
  private final AdmitOptions options;

  Admitter(Core core, AdmitTaskRequest request, AdmitOptions options) {
    this.core = core;
    this.options = options;
    AdmitTaskRequest.Builder full = request.toBuilder();
    options.lease().ifPresent(length -> full.setLeaseDuration(Times.proto(length)));
    this.request = full.build();
  }

  Op<Admission> send() {
    Waiter<AdmitTaskRequest, AdmitTaskResponse> waiter =
        new Waiter<>(
            core,
            AdmissionServiceGrpc.getAdmitTaskMethod(),
            request,
            (message, wait) -> message.toBuilder().setMaxWait(Times.proto(wait)).build(),
            answer ->
                switch (answer.getDecision()) {
                  case ADMIT_DECISION_ADMITTED ->
                      Waiter.Answer.granted(Times.duration(answer.getLease().getExpiresIn()));
                  case ADMIT_DECISION_FULL ->
                      Waiter.Answer.refused(Times.duration(answer.getRetryAfter()));
                  default -> Waiter.Answer.other();
                });
    return waiter
        .send(options.maxWait())
        .map(granted -> admission(core, options, granted.first(), granted.latest()));
  }

  /** Converts an answer. */
  static Admission admission(Core core, AdmitOptions options, Reply<AdmitTaskResponse> reply) {
    return admission(core, options, reply, reply);
  }

  /** Converts an answer; {@code latest} is that of the last repeat, which tells the time left. */
  private static Admission admission(
      Core core,
      AdmitOptions options,
      Reply<AdmitTaskResponse> first,
      Reply<AdmitTaskResponse> latest) {
    AdmitTaskResponse answer = latest.answer();
    Duration retryAfter = Times.duration(answer.getRetryAfter());
    Usage usage = Usage.of(answer.getUsage());
    return switch (answer.getDecision()) {
      case ADMIT_DECISION_ADMITTED ->
          new Admission.Admitted(new Permit(core, grant(first, latest), options));
      case ADMIT_DECISION_FULL -> new Admission.Full(retryAfter, usage);
      case ADMIT_DECISION_PAUSED -> new Admission.Paused(retryAfter, usage);
      case ADMIT_DECISION_NO_TASK -> new Admission.NoTask();
      case ADMIT_DECISION_ALREADY_COMPLETED -> new Admission.AlreadyCompleted();
      default ->
          throw TollgateException.unknownAnswer("AdmitDecision " + answer.getDecisionValue());
    };
  }

  private static Grant grant(Reply<AdmitTaskResponse> first, Reply<AdmitTaskResponse> latest) {
    AdmitTaskResponse answer = latest.answer();
    Endpoint server = answer.getDegraded() ? latest.server() : null;
    return new Grant(
        answer.getLease(),
        latest.sentNanos(),
        first.answer().getReplayed(),
        answer.getTask().getPayload(),
        answer.getTask().getAttempt(),
        server);
  }
}

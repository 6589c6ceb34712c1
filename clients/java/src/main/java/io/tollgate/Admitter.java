package io.tollgate;

import com.google.protobuf.ByteString;
import io.tollgate.v1.AdmissionServiceGrpc;
import io.tollgate.v1.AdmitTaskRequest;
import io.tollgate.v1.AdmitTaskResponse;
import io.tollgate.v1.RenewTaskRequest;
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
   * @param key the identity of the lease for {@link Claims}
   */
  record Grant(
      io.tollgate.v1.Lease lease,
      long sentNanos,
      boolean replayed,
      ByteString payload,
      int attempt,
      Endpoint server,
      String key) {}

  /** Minimum lease that a server grants. */
  private static final Duration SHORTEST = Duration.ofMillis(100);

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
    Op<Admission> outcome = new Op<>();
    String key = Claims.key("task", request.getPool(), request.getDeviceId(), request.getTaskId());
    var unused =
        core.claims()
            .enter(key)
            .thenAccept(
                claim -> {
                  claim.follow(
                      outcome,
                      Admitter::token,
                      waiter.ended().thenApply(Admitter::granted),
                      this::shorten);
                  outcome.take(
                      waiter.send(options.maxWait()),
                      granted -> admission(core, options, granted, key),
                      Admitter::discard);
                });
    return outcome;
  }

  private static Long token(Admission admission) {
    return admission instanceof Admission.Admitted admitted ? admitted.permit().token() : null;
  }

  private static void discard(Admission admission) {
    if (admission instanceof Admission.Admitted admitted) {
      admitted.permit().close();
    }
  }

  private static Claims.Grant granted(Reply<AdmitTaskResponse> reply) {
    if (reply == null) {
      return null;
    }
    var lease = reply.answer().getLease();
    return new Claims.Grant(
        lease.getFencingToken(),
        reply.answer().getReplayed(),
        lease.getTaskId(),
        Times.duration(lease.getExpiresIn()));
  }

  /**
   * Ends a lease that no caller has received, by renewing it for the minimum time and waiting until
   * it ends. The task therefore has no result, and a later call gets a new lease.
   */
  private Op<Void> shorten(Claims.Grant grant, long until) {
    RenewTaskRequest renewal =
        RenewTaskRequest.newBuilder()
            .setPool(request.getPool())
            .setDeviceId(request.getDeviceId())
            .setTaskId(grant.task())
            .setFencingToken(grant.token())
            .setLeaseDuration(Times.proto(SHORTEST))
            .build();
    return core.claims()
        .giveUp(until, AdmissionServiceGrpc.getRenewTaskMethod(), CallPlan.ONCE, renewal)
        .then(answer -> core.calls().pauseFor(SHORTEST.toNanos()));
  }

  /** Converts an answer. */
  static Admission admission(Core core, AdmitOptions options, Reply<AdmitTaskResponse> reply) {
    var lease = reply.answer().getLease();
    String key = Claims.key("task", lease.getPool(), lease.getDeviceId(), lease.getTaskId());
    return admission(core, options, new Waiter.Granted<>(reply, reply), key);
  }

  /** Converts an answer to a call with the given identity. */
  private static Admission admission(
      Core core, AdmitOptions options, Waiter.Granted<AdmitTaskResponse> granted, String key) {
    AdmitTaskResponse answer = granted.latest().answer();
    Duration retryAfter = Times.duration(answer.getRetryAfter());
    Usage usage = Usage.of(answer.getUsage());
    return switch (answer.getDecision()) {
      case ADMIT_DECISION_ADMITTED ->
          new Admission.Admitted(
              new Permit(core, grant(granted.first(), granted.latest(), key), options));
      case ADMIT_DECISION_FULL -> new Admission.Full(retryAfter, usage);
      case ADMIT_DECISION_PAUSED -> new Admission.Paused(retryAfter, usage);
      case ADMIT_DECISION_NO_TASK -> new Admission.NoTask();
      case ADMIT_DECISION_ALREADY_COMPLETED -> new Admission.AlreadyCompleted();
      default ->
          throw TollgateException.unknownAnswer("AdmitDecision " + answer.getDecisionValue());
    };
  }

  private static Grant grant(
      Reply<AdmitTaskResponse> first, Reply<AdmitTaskResponse> latest, String key) {
    AdmitTaskResponse answer = latest.answer();
    Endpoint server = answer.getDegraded() ? latest.server() : null;
    return new Grant(
        answer.getLease(),
        latest.sentNanos(),
        first.answer().getReplayed(),
        answer.getTask().getPayload(),
        answer.getTask().getAttempt(),
        server,
        key);
  }
}

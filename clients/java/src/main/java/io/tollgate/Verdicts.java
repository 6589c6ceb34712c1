package io.tollgate;

import com.google.protobuf.ByteString;
import io.tollgate.v1.CompleteTaskRequest;
import io.tollgate.v1.RenewTaskRequest;
import java.time.Duration;

/** Conversions of the answers of AdmissionService. */
final class Verdicts {
  private Verdicts() {}

  static CompleteVerdict complete(io.tollgate.v1.CompleteTaskResponse answer) {
    return Enums.of(CompleteVerdict.class, "COMPLETE_VERDICT_", answer.getVerdict());
  }

  static RenewVerdict renew(io.tollgate.v1.RenewVerdict verdict) {
    return Enums.of(RenewVerdict.class, "RENEW_VERDICT_", verdict);
  }

  /** Returns why a renewal lost the lease; null if the lease was extended. */
  static LossReason loss(io.tollgate.v1.RenewVerdict verdict) {
    return switch (verdict) {
      case RENEW_VERDICT_RENEWED -> null;
      case RENEW_VERDICT_EXPIRED -> LossReason.EXPIRED;
      case RENEW_VERDICT_COMPLETED -> LossReason.COMPLETED;
      case RENEW_VERDICT_STALE_TOKEN -> LossReason.STALE_TOKEN;
      default -> LossReason.UNKNOWN;
    };
  }

  static io.tollgate.v1.Outcome outcome(Outcome outcome) {
    return outcome == Outcome.FAILED
        ? io.tollgate.v1.Outcome.OUTCOME_FAILED
        : io.tollgate.v1.Outcome.OUTCOME_SUCCEEDED;
  }

  static RenewResult renewal(Core core, Reply<io.tollgate.v1.RenewTaskResponse> reply) {
    RenewVerdict verdict = renew(reply.answer().getVerdict());
    if (verdict != RenewVerdict.RENEWED) {
      return new RenewResult(verdict, Duration.ZERO);
    }
    long took = core.clock().getAsLong() - reply.sentNanos();
    Duration left = Times.duration(reply.answer().getLease().getExpiresIn()).minusNanos(took);
    return new RenewResult(verdict, left.isNegative() ? Duration.ZERO : left);
  }

  static CompleteTaskRequest message(Bulk.Complete item) {
    var message =
        CompleteTaskRequest.newBuilder()
            .setPool(item.pool())
            .setDeviceId(item.device())
            .setTaskId(item.task())
            .setOutcome(outcome(item.outcome()))
            .setResult(ByteString.copyFrom(item.result()));
    item.token().ifPresent(message::setFencingToken);
    return message.build();
  }

  static RenewTaskRequest message(Bulk.Renew item) {
    var message =
        RenewTaskRequest.newBuilder()
            .setPool(item.pool())
            .setDeviceId(item.device())
            .setTaskId(item.task());
    item.token().ifPresent(message::setFencingToken);
    item.lease().ifPresent(length -> message.setLeaseDuration(Times.proto(length)));
    return message.build();
  }
}

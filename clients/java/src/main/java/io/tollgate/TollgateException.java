package io.tollgate;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.Message;
import com.google.rpc.BadRequest;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import io.grpc.Status;
import io.grpc.protobuf.StatusProto;
import java.io.IOException;
import java.io.Serial;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * A call that could not be decided. Refusals such as a full pool are answers, not exceptions.
 *
 * <p>The library has already retried calls that are safe to repeat, see {@link TollgateBuilder}.
 */
public sealed class TollgateException extends RuntimeException permits QuantityDiffersException {
  @Serial private static final long serialVersionUID = 1L;

  /**
   * A bad field of a request.
   *
   * @param field the path of the field in the contract, for example {@code device_id}
   * @param description what was expected
   */
  public record Violation(String field, String description) implements java.io.Serializable {
    @Serial private static final long serialVersionUID = 1L;
  }

  /** Reason of an error: the server uses TLS and the client does not, or vice versa. */
  static final String TLS_MISMATCH = "TLS_MISMATCH";

  /** The text of the GOAWAY frame of a server that requires TLS. */
  private static final String TLS_REFUSAL = "this port of Tollgate requires TLS";

  /** The error of Netty for an answer that is not a TLS record. */
  private static final String NOT_TLS = "not an SSL/TLS record";

  private final Status.Code code;
  private final String reason;
  private final ArrayList<Violation> violations;
  private final Duration retryAfter;

  TollgateException(Status.Code code, String message) {
    this(code, "", List.of(), null, message, null);
  }

  TollgateException(
      Status.Code code,
      String reason,
      List<Violation> violations,
      Duration retryAfter,
      String message,
      Throwable cause) {
    super(message, cause);
    this.code = code;
    this.reason = reason;
    this.violations = new ArrayList<>(violations);
    this.retryAfter = retryAfter;
  }

  /** Returns the gRPC status code. */
  public Status.Code code() {
    return code;
  }

  /** Returns the reason of the server, for example {@code OVERLOADED}; empty without one. */
  public String reason() {
    return reason;
  }

  /** Returns the bad fields of an INVALID_ARGUMENT; empty for other codes. */
  public List<Violation> violations() {
    return List.copyOf(violations);
  }

  /** Returns when to send the call again, if the server said so. */
  public Optional<Duration> retryAfter() {
    return Optional.ofNullable(retryAfter);
  }

  /** Returns the same error with the stack of the calling thread, and this one as cause. */
  TollgateException forCaller() {
    return new TollgateException(code, reason, violations, retryAfter, getMessage(), this);
  }

  /** Reads the status and its details from an error of a stub. */
  static TollgateException from(Throwable error) {
    if (error instanceof TollgateException known) {
      return known;
    }
    Status status = transport(Status.fromThrowable(error));
    String reason = "";
    List<Violation> violations = new ArrayList<>();
    Duration retryAfter = null;
    com.google.rpc.Status details = StatusProto.fromThrowable(error);
    List<Any> all = details == null ? List.of() : details.getDetailsList();
    for (Any detail : all) {
      reason = unpacked(detail, ErrorInfo.class).map(ErrorInfo::getReason).orElse(reason);
      retryAfter =
          unpacked(detail, RetryInfo.class)
              .map(info -> Times.duration(info.getRetryDelay()))
              .orElse(retryAfter);
      unpacked(detail, BadRequest.class).map(BadRequest::getFieldViolationsList).stream()
          .flatMap(List::stream)
          .forEach(v -> violations.add(new Violation(v.getField(), v.getDescription())));
    }
    String text = status.getDescription() == null ? "" : status.getDescription();
    if (status.getCause() != null && status.getCause().getMessage() != null) {
      text += " (" + status.getCause().getMessage() + ")";
    }
    String hint = tlsHint(text);
    if (hint != null) {
      return tlsMismatch(hint, error);
    }
    return new TollgateException(
        status.getCode(), reason, violations, retryAfter, message(status, text, violations), error);
  }

  /** Returns the hint if client and server disagree about TLS, else null. */
  private static String tlsHint(String text) {
    if (text.contains(TLS_REFUSAL)) {
      return "the server requires TLS: call TollgateBuilder.tls";
    }
    return text.contains(NOT_TLS)
        ? "the server does not use TLS: leave out TollgateBuilder.tls"
        : null;
  }

  /** Returns the error of a call to a server with the other protocol. */
  static TollgateException tlsMismatch(String hint, Throwable cause) {
    Status status = Status.UNAVAILABLE;
    return new TollgateException(
        status.getCode(), TLS_MISMATCH, List.of(), null, message(status, hint, List.of()), cause);
  }

  /** Returns a detail if it has the given type and can be read. */
  private static <M extends Message> Optional<M> unpacked(Any detail, Class<M> type) {
    try {
      return detail.is(type) ? Optional.of(detail.unpack(type)) : Optional.empty();
    } catch (InvalidProtocolBufferException unreadable) {
      return Optional.empty();
    }
  }

  /**
   * Corrects the status of a lost connection: gRPC reports it as UNKNOWN if the connection ends
   * while it is set up. Only a status that was made locally has a cause.
   */
  private static Status transport(Status status) {
    boolean lost =
        status.getCode() == Status.Code.UNKNOWN && status.getCause() instanceof IOException;
    return lost
        ? Status.UNAVAILABLE.withDescription(status.getDescription()).withCause(status.getCause())
        : status;
  }

  /** Converts the error of one item of a batch. */
  static TollgateException from(io.tollgate.v1.ItemError error) {
    List<Violation> violations = new ArrayList<>();
    for (var v : error.getViolationsList()) {
      violations.add(new Violation(v.getField(), v.getDescription()));
    }
    Duration retryAfter = error.hasRetryAfter() ? Times.duration(error.getRetryAfter()) : null;
    Status status = Status.fromCodeValue(error.getCode());
    return new TollgateException(
        status.getCode(),
        error.getReason(),
        violations,
        retryAfter,
        message(status, error.getMessage(), violations),
        null);
  }

  private static String message(Status status, String text, List<Violation> violations) {
    StringBuilder out = new StringBuilder(status.getCode().name());
    if (!text.isEmpty()) {
      out.append(": ").append(text);
    }
    for (Violation v : violations) {
      out.append("; ").append(v.field()).append(": ").append(v.description());
    }
    return out.toString();
  }

  /** Returns the error of a request that the library does not send. */
  static TollgateException badField(String field, String expected) {
    List<Violation> violations = List.of(new Violation(field, expected));
    Status status = Status.INVALID_ARGUMENT;
    return new TollgateException(
        status.getCode(), "", violations, null, message(status, "", violations), null);
  }

  /** Returns the error for an answer that this version of the library does not know. */
  static TollgateException unknownAnswer(Object answer) {
    return new TollgateException(
        Status.Code.INTERNAL,
        "ANSWER_UNKNOWN",
        List.of(),
        null,
        "INTERNAL: the server answered "
            + answer
            + ", which this version of the library does not know: update the library",
        null);
  }
}

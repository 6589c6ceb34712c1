package io.tollgate.grpc;

import com.google.protobuf.Any;
import com.google.protobuf.Duration;
import com.google.rpc.Code;
import com.google.rpc.RetryInfo;
import io.grpc.Grpc;
import io.grpc.Metadata;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import io.tollgate.AddressKey;
import io.tollgate.RateDecision;
import io.tollgate.RateLimiter;
import io.tollgate.TollgateException;
import java.net.InetSocketAddress;
import java.net.SocketAddress;

/**
 * Interceptor of a gRPC server that answers RESOURCE_EXHAUSTED with RetryInfo to calls beyond the
 * rate of their caller.
 *
 * <p>A check that could not be decided answers UNAVAILABLE, unless the limiter has a failure
 * policy. The check blocks the thread of the call: do not use it with a direct executor.
 */
public final class RateLimitInterceptor implements ServerInterceptor {
  /** Names the caller of a call. */
  @FunctionalInterface
  public interface Key {
    /** Returns the key of the call; null or empty lets the call pass without a check. */
    String of(ServerCall<?, ?> call, Metadata headers);

    /** Returns the key that is the address of the peer, or the /64 of an IPv6 address. */
    static Key address() {
      return address(AddressKey.IPV6_BITS);
    }

    /** Returns the same key with the given number of bits of an IPv6 address, 1 to 128. */
    static Key address(int ipv6Bits) {
      return (call, headers) -> {
        SocketAddress peer = call.getAttributes().get(Grpc.TRANSPORT_ATTR_REMOTE_ADDR);
        String address =
            peer instanceof InetSocketAddress inet
                ? inet.getAddress().getHostAddress()
                : String.valueOf(peer);
        return AddressKey.of(address, ipv6Bits);
      };
    }

    /** Returns the key that is the value of a header. A call without it is not checked. */
    static Key header(String name) {
      Metadata.Key<String> key = Metadata.Key.of(name, Metadata.ASCII_STRING_MARSHALLER);
      return (call, headers) -> headers.get(key);
    }
  }

  private final RateLimiter limiter;
  private final Key key;

  /** Creates an interceptor that checks the key of each call with the limiter. */
  public RateLimitInterceptor(RateLimiter limiter, Key key) {
    this.limiter = limiter;
    this.key = key;
  }

  @Override
  public <Q, A> ServerCall.Listener<Q> interceptCall(
      ServerCall<Q, A> call, Metadata headers, ServerCallHandler<Q, A> next) {
    String caller = key.of(call, headers);
    if (caller == null || caller.isEmpty()) {
      return next.startCall(call, headers);
    }
    RateDecision decision;
    try {
      decision = limiter.check(caller);
    } catch (TollgateException failure) {
      limiter.log("the call gets UNAVAILABLE", failure);
      Status status = Status.UNAVAILABLE.withDescription("the rate could not be checked");
      call.close(status.withCause(failure), new Metadata());
      return new ServerCall.Listener<>() {};
    }
    if (decision.allowed()) {
      return next.startCall(call, headers);
    }
    StatusRuntimeException refusal = refusal(decision);
    Metadata trailers = refusal.getTrailers();
    call.close(refusal.getStatus(), trailers == null ? new Metadata() : trailers);
    return new ServerCall.Listener<>() {};
  }

  private static StatusRuntimeException refusal(RateDecision decision) {
    var status =
        com.google.rpc.Status.newBuilder()
            .setCode(Code.RESOURCE_EXHAUSTED_VALUE)
            .setMessage("the rate of the caller is above its limit");
    decision
        .retryAfter()
        .map(d -> Duration.newBuilder().setSeconds(d.getSeconds()).setNanos(d.getNano()).build())
        .map(d -> Any.pack(RetryInfo.newBuilder().setRetryDelay(d).build()))
        .ifPresent(status::addDetails);
    return StatusProto.toStatusRuntimeException(status.build());
  }
}

package io.tollgate;

import com.google.protobuf.Any;
import com.google.protobuf.Duration;
import com.google.rpc.RetryInfo;
import io.grpc.Metadata;
import io.grpc.Server;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.ServerInterceptors;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import io.grpc.protobuf.StatusProto;
import io.grpc.stub.StreamObserver;
import io.tollgate.v1.AddStockRequest;
import io.tollgate.v1.AddStockResponse;
import io.tollgate.v1.CheckRateRequest;
import io.tollgate.v1.CheckRateResponse;
import io.tollgate.v1.NextSequenceRequest;
import io.tollgate.v1.NextSequenceResponse;
import io.tollgate.v1.RateServiceGrpc;
import io.tollgate.v1.RateVerdict;
import io.tollgate.v1.SequenceServiceGrpc;
import io.tollgate.v1.SetStockRequest;
import io.tollgate.v1.SetStockResponse;
import io.tollgate.v1.StockServiceGrpc;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CopyOnWriteArrayList;

/** A gRPC server that fails calls by plan, and records requests and headers. */
final class FaultServer implements AutoCloseable {
  final Queue<StatusRuntimeException> faults = new ConcurrentLinkedQueue<>();
  final List<String> requestIds = new CopyOnWriteArrayList<>();
  final List<Metadata> headers = new CopyOnWriteArrayList<>();
  private final Server server;

  FaultServer() throws IOException {
    server =
        NettyServerBuilder.forAddress(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0))
            .addService(ServerInterceptors.intercept(new Stock(), new Recorder()))
            .addService(ServerInterceptors.intercept(new Rate(), new Recorder()))
            .addService(ServerInterceptors.intercept(new Sequences(), new Recorder()))
            .build()
            .start();
  }

  String address() {
    return "127.0.0.1:" + server.getPort();
  }

  static StatusRuntimeException fault(Status.Code code) {
    return code.toStatus().asRuntimeException();
  }

  static StatusRuntimeException faultWithRetryInfo(Status.Code code, java.time.Duration after) {
    Duration delay =
        Duration.newBuilder().setSeconds(after.getSeconds()).setNanos(after.getNano()).build();
    return StatusProto.toStatusRuntimeException(
        com.google.rpc.Status.newBuilder()
            .setCode(code.value())
            .addDetails(Any.pack(RetryInfo.newBuilder().setRetryDelay(delay).build()))
            .build());
  }

  private <A> void answer(String requestId, A answer, StreamObserver<A> observer) {
    requestIds.add(requestId);
    StatusRuntimeException fault = faults.poll();
    if (fault != null) {
      observer.onError(fault);
      return;
    }
    observer.onNext(answer);
    observer.onCompleted();
  }

  @Override
  public void close() {
    server.shutdownNow();
  }

  private final class Stock extends StockServiceGrpc.StockServiceImplBase {
    @Override
    public void setStock(SetStockRequest request, StreamObserver<SetStockResponse> observer) {
      answer("", SetStockResponse.getDefaultInstance(), observer);
    }

    @Override
    public void addStock(AddStockRequest request, StreamObserver<AddStockResponse> observer) {
      answer(request.getRequestId(), AddStockResponse.getDefaultInstance(), observer);
    }
  }

  private final class Sequences extends SequenceServiceGrpc.SequenceServiceImplBase {
    @Override
    public void nextSequence(
        NextSequenceRequest request, StreamObserver<NextSequenceResponse> observer) {
      answer(request.getRequestId(), NextSequenceResponse.getDefaultInstance(), observer);
    }
  }

  private final class Rate extends RateServiceGrpc.RateServiceImplBase {
    @Override
    public void checkRate(CheckRateRequest request, StreamObserver<CheckRateResponse> observer) {
      CheckRateResponse allowed =
          CheckRateResponse.newBuilder()
              .setAllowed(true)
              .setVerdict(RateVerdict.RATE_VERDICT_ALLOW)
              .build();
      answer(request.getRequestId(), allowed, observer);
    }
  }

  private final class Recorder implements ServerInterceptor {
    @Override
    public <Q, A> ServerCall.Listener<Q> interceptCall(
        ServerCall<Q, A> call, Metadata metadata, ServerCallHandler<Q, A> next) {
      headers.add(metadata);
      return next.startCall(call, metadata);
    }
  }
}

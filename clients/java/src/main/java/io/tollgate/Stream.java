package io.tollgate;

import io.grpc.ClientCall;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;

/**
 * One stream of events, with at most a few unread messages. It travels on a connection for waits.
 */
final class Stream<E> {
  private static final int UNREAD = 64;

  /** An event, or the end of the stream. */
  private record Entry<E>(E event, TollgateException end) {}

  private final LinkedBlockingQueue<Entry<E>> entries = new LinkedBlockingQueue<>();
  private final CountDownLatch opened = new CountDownLatch(1);
  private final long openNanos;
  private final Endpoint.Line line;
  private final ClientCall<?, ?> call;
  private volatile boolean open;

  private Stream(Endpoint.Line line, ClientCall<?, ?> call, long openNanos) {
    this.line = line;
    this.call = call;
    this.openNanos = openNanos;
  }

  static <Q, A, E> Stream<E> open(
      Core core, MethodDescriptor<Q, A> method, Q request, Function<A, E> convert) {
    Endpoint server = core.endpoints().pick(null);
    server.reconnect();
    Endpoint.Line line = server.waitLine();
    ClientCall<Q, A> call = line.channel().newCall(method, core.calls().options());
    Stream<E> stream = new Stream<>(line, call, core.calls().deadlineNanos());
    call.start(stream.listener(convert), new Metadata());
    call.sendMessage(request);
    call.halfClose();
    call.request(UNREAD);
    return stream;
  }

  private <A> ClientCall.Listener<A> listener(Function<A, E> convert) {
    return new ClientCall.Listener<>() {
      @Override
      public void onHeaders(Metadata headers) {
        open = true;
        opened.countDown();
      }

      @Override
      public void onMessage(A message) {
        entries.add(new Entry<>(convert.apply(message), null));
      }

      @Override
      public void onClose(Status status, Metadata trailers) {
        line.release();
        Status end =
            status.isOk() ? Status.UNAVAILABLE.withDescription("the stream has ended") : status;
        entries.add(new Entry<>(null, TollgateException.from(end.asRuntimeException(trailers))));
        opened.countDown();
      }
    };
  }

  /** Waits until the server has accepted the stream, or it has failed, or the deadline is over. */
  void awaitOpen() {
    try {
      var unused = opened.await(openNanos, TimeUnit.NANOSECONDS);
    } catch (InterruptedException interrupt) {
      Thread.currentThread().interrupt();
    }
  }

  /** Returns whether the server had accepted the stream. */
  boolean wasOpen() {
    return open;
  }

  /** Returns the next event; fails when the stream has ended. */
  E take() {
    try {
      Entry<E> entry = entries.take();
      if (entry.end() != null) {
        throw entry.end();
      }
      call.request(1);
      return entry.event();
    } catch (InterruptedException interrupt) {
      Thread.currentThread().interrupt();
      throw new TollgateException(Status.Code.CANCELLED, "the watching thread was interrupted");
    }
  }

  void cancel() {
    call.cancel("the watch is closed", null);
  }
}

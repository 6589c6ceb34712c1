package io.tollgate;

import io.grpc.Status;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;
import java.util.function.Function;

/** Future of a call. Its cancellation, or that of a future derived from it, cancels the call. */
final class Op<T> extends CompletableFuture<T> {
  private volatile CompletableFuture<?> upstream;
  private volatile Runnable canceller;

  @Override
  public <U> CompletableFuture<U> newIncompleteFuture() {
    Op<U> child = new Op<>();
    child.upstream = this;
    return child;
  }

  static <T> Op<T> of(T value) {
    Op<T> op = new Op<>();
    op.complete(value);
    return op;
  }

  static <T> Op<T> failed(Throwable error) {
    Op<T> op = new Op<>();
    op.completeExceptionally(error);
    return op;
  }

  /** Runs {@code action} when this future is cancelled or aborted; replaces an earlier action. */
  void onCancel(Runnable action) {
    canceller = action;
    if (isCompletedExceptionally()) {
      action.run();
    }
  }

  /** Ends the call with an error, as if it were cancelled. */
  void abort(Throwable error) {
    Runnable action = canceller;
    if (completeExceptionally(error) && action != null) {
      action.run();
    }
  }

  /** Takes the result of {@code inner}, and passes a cancellation on to it. */
  void follow(CompletableFuture<T> inner) {
    upstream = inner;
    if (isCancelled()) {
      inner.cancel(true);
    }
    var unused =
        inner.whenComplete(
            (value, error) -> {
              if (error != null) {
                completeExceptionally(cause(error));
              } else {
                complete(value);
              }
            });
  }

  /** Takes the converted result of {@code inner}. A value that comes too late is discarded. */
  <S> void take(
      CompletableFuture<S> inner, Function<? super S, ? extends T> convert, Consumer<T> discard) {
    upstream = inner;
    if (isCancelled()) {
      inner.cancel(true);
    }
    var unused =
        inner.whenComplete(
            (value, error) -> {
              if (error != null) {
                completeExceptionally(cause(error));
                return;
              }
              try {
                T converted = convert.apply(value);
                if (!complete(converted)) {
                  discard.accept(converted);
                }
              } catch (RuntimeException | Error failure) {
                completeExceptionally(failure);
              }
            });
  }

  /** Continues with another future; its cancellation reaches both. */
  <U> Op<U> then(Function<? super T, ? extends CompletableFuture<U>> next) {
    Op<U> result = new Op<>();
    result.upstream = this;
    var unused =
        whenComplete(
            (value, error) -> {
              if (error != null) {
                result.completeExceptionally(cause(error));
                return;
              }
              try {
                result.follow(next.apply(value));
              } catch (RuntimeException | Error failure) {
                result.completeExceptionally(failure);
              }
            });
    return result;
  }

  /** Converts the result. */
  <U> Op<U> map(Function<? super T, ? extends U> convert) {
    return then(value -> of(convert.apply(value)));
  }

  /** Replaces an error by the value that {@code decide} returns for it, unless that is null. */
  Op<T> recover(Function<Throwable, T> decide) {
    Op<T> result = new Op<>();
    result.upstream = this;
    var unused =
        whenComplete(
            (value, error) -> {
              T replaced = error == null ? value : decide.apply(cause(error));
              if (error != null && replaced == null) {
                result.completeExceptionally(cause(error));
              } else {
                result.complete(replaced);
              }
            });
    return result;
  }

  @Override
  public boolean cancel(boolean mayInterruptIfRunning) {
    boolean cancelled = super.cancel(mayInterruptIfRunning);
    CompletableFuture<?> source = upstream;
    if (cancelled && source != null) {
      source.cancel(mayInterruptIfRunning);
    }
    Runnable action = canceller;
    if (cancelled && action != null) {
      action.run();
    }
    return cancelled;
  }

  /**
   * Waits for the result. An interrupt cancels the call; it then fails with CANCELLED, and the
   * interrupt status of the thread is set.
   */
  static <T> T await(CompletableFuture<T> future) {
    try {
      return future.get();
    } catch (InterruptedException interrupt) {
      Thread.currentThread().interrupt();
      if (!future.cancel(true) && !future.isCompletedExceptionally()) {
        return future.join();
      }
      throw new TollgateException(Status.Code.CANCELLED, "the calling thread was interrupted");
    } catch (CancellationException cancelled) {
      throw new TollgateException(Status.Code.CANCELLED, "the call was cancelled");
    } catch (ExecutionException failure) {
      throw rethrown(cause(failure));
    }
  }

  /** Waits for the result up to a time. The call continues after it, and after an interrupt. */
  static <T> T awaitWithin(CompletableFuture<T> future, long nanos) {
    try {
      return future.get(nanos, TimeUnit.NANOSECONDS);
    } catch (InterruptedException interrupt) {
      Thread.currentThread().interrupt();
      throw new TollgateException(Status.Code.CANCELLED, "the calling thread was interrupted");
    } catch (TimeoutException late) {
      throw new TollgateException(
          Status.Code.DEADLINE_EXCEEDED,
          "no server has answered; further tries follow in the background");
    } catch (CancellationException cancelled) {
      throw new TollgateException(Status.Code.CANCELLED, "the call was cancelled");
    } catch (ExecutionException failure) {
      throw rethrown(cause(failure));
    }
  }

  private static RuntimeException rethrown(Throwable error) {
    if (error instanceof TollgateException known) {
      return known.forCaller();
    }
    if (error instanceof Error fatal) {
      throw fatal;
    }
    if (error instanceof CancellationException) {
      return new TollgateException(Status.Code.CANCELLED, "the call was cancelled");
    }
    return new IllegalStateException(error);
  }

  static Throwable cause(Throwable error) {
    boolean wrapper = error instanceof CompletionException || error instanceof ExecutionException;
    return wrapper && error.getCause() != null ? error.getCause() : error;
  }
}

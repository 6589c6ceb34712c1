package io.tollgate;

import io.grpc.MethodDescriptor;
import java.util.ArrayDeque;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.Executor;
import java.util.concurrent.RejectedExecutionException;

/**
 * The calls that a client has sent. Further calls wait in order, so that their deadlines do not run
 * while gRPC would queue them.
 */
final class InFlight {
  /** Calls at a time. A server accepts 256 calls on a connection by default. */
  static final int MAX = 200;

  /** Calls that keep or end a lease, which do not wait behind others. */
  private static final Set<String> EXEMPT =
      Set.of(
          "RenewTask", "RenewTasks", "RenewLock", "CompleteTask", "CompleteTasks", "ReleaseLock");

  private final Executor executor;
  private final Queue<Runnable> waiting = new ArrayDeque<>();
  private int free = MAX;

  InFlight(Executor executor) {
    this.executor = executor;
  }

  static boolean isExempt(MethodDescriptor<?, ?> method) {
    return EXEMPT.contains(method.getBareMethodName());
  }

  /** Runs {@code send} as soon as a call may be sent. Call {@link #release()} after its answer. */
  void acquire(Runnable send) {
    synchronized (this) {
      if (free == 0) {
        waiting.add(send);
        return;
      }
      free--;
    }
    send.run();
  }

  void release() {
    Runnable next;
    synchronized (this) {
      next = waiting.poll();
      if (next == null) {
        free++;
        return;
      }
    }
    try {
      executor.execute(next);
    } catch (RejectedExecutionException closed) {
      next.run();
    }
  }
}

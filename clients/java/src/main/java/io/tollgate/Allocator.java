package io.tollgate;

import io.grpc.Status;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;

/**
 * Hands out values of a sequence from a block in memory, and fetches the next block when half of it
 * is used. No value is handed out twice. Safe for several threads.
 */
public final class Allocator {
  /**
   * A value.
   *
   * @param value the value
   * @param serial the value in the layout of the name; empty without a layout
   */
  public record Value(long value, Optional<String> serial) {}

  private final Sequence sequence;
  private final int size;
  private SequenceValues block;
  private int used;
  private int count;
  private CompletableFuture<SequenceValues> following;

  Allocator(Sequence sequence, int size) {
    if (size < 1) {
      throw new IllegalArgumentException("block is below 1: " + size);
    }
    this.sequence = sequence;
    this.size = size;
  }

  /** Returns the next value. Blocks only if no block is in memory. */
  public Value next() {
    while (true) {
      CompletableFuture<SequenceValues> fetch;
      synchronized (this) {
        if (used < count) {
          return take();
        }
        fetch = fetch();
      }
      accept(fetch);
    }
  }

  private Value take() {
    int index = used++;
    if (used * 2 >= count) {
      var unused = fetch();
    }
    List<String> serials = block.serials();
    if (serials.isEmpty()) {
      return new Value(block.first() + index * block.step(), Optional.empty());
    }
    return new Value(valueOf(index), Optional.of(serials.get(index)));
  }

  /** Starts to fetch the following block unless a call is running. */
  private CompletableFuture<SequenceValues> fetch() {
    if (following == null || (following.isCompletedExceptionally() && used >= count)) {
      following = sequence.nextAsync(SequenceOptions.defaults().withCount(size));
    }
    return following;
  }

  private void accept(CompletableFuture<SequenceValues> fetch) {
    SequenceValues values = await(fetch);
    synchronized (this) {
      if (following == fetch) {
        following = null;
        block = values;
        used = 0;
        count = values.serials().isEmpty() ? size : values.serials().size();
      }
    }
  }

  /** Waits for the shared call; an interrupt ends the wait, not the call. */
  private static SequenceValues await(CompletableFuture<SequenceValues> fetch) {
    CompletableFuture<SequenceValues> mine = new CompletableFuture<>();
    var unused =
        fetch.whenComplete(
            (values, error) -> {
              if (error != null) {
                mine.completeExceptionally(error);
              } else {
                mine.complete(values);
              }
            });
    return Op.await(mine);
  }

  /**
   * Returns a value of a block with serials. Without a calendar change in the block, the values are
   * first + step × index. Otherwise, the digits at the end of the serial are the value.
   */
  private long valueOf(int index) {
    if (block.first() + (count - 1L) * block.step() == block.last()) {
      return block.first() + index * block.step();
    }
    int digits = Long.toString(block.first()).length();
    String all = block.serials().get(index).replaceAll("[^0-9]", "");
    String last = all.substring(Math.max(0, all.length() - digits));
    long value = last.isEmpty() ? -1 : Long.parseLong(last);
    if (value < block.first() || value > block.last()) {
      throw new TollgateException(
          Status.Code.INTERNAL, "serial " + block.serials().get(index) + " has no value");
    }
    return value;
  }
}

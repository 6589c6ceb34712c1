package io.tollgate;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class InFlightTest {
  private final List<Integer> sent = new ArrayList<>();
  private final InFlight calls = new InFlight(Runnable::run);

  private void acquire(int count) {
    for (int i = 0; i < count; i++) {
      int number = sent.size() + i;
      calls.acquire(() -> sent.add(number));
    }
  }

  @Test
  void furtherCallsWaitInOrder() {
    acquire(InFlight.MAX);
    assertEquals(InFlight.MAX, sent.size());
    calls.acquire(() -> sent.add(-1));
    calls.acquire(() -> sent.add(-2));
    assertEquals(InFlight.MAX, sent.size());
    calls.release();
    assertEquals(-1, sent.get(sent.size() - 1));
    calls.release();
    assertEquals(-2, sent.get(sent.size() - 1));
    calls.release();
    calls.acquire(() -> sent.add(-3));
    assertEquals(InFlight.MAX + 3, sent.size());
  }
}

package io.tollgate;

import io.tollgate.v1.ConfigurePoolRequest;
import java.time.Duration;

/**
 * Changes of the settings of a pool. A setting that is not named stays. Not safe for several
 * threads.
 */
public final class PoolSettings {
  private final ConfigurePoolRequest.Builder request = ConfigurePoolRequest.newBuilder();

  /** Sets the number of slots, 0 to 1,000,000. */
  public PoolSettings capacity(int slots) {
    request.setCapacity(slots);
    return this;
  }

  /** Sets the length of leases granted from now on, 100 ms to 24 h. */
  public PoolSettings lease(Duration length) {
    request.setLeaseDuration(Times.proto(length));
    return this;
  }

  /** Sets how long a lease that ended without a result keeps its slot, 0 to 30 days. */
  public PoolSettings expiryGrace(Duration length) {
    request.setExpiryGrace(Times.proto(length));
    return this;
  }

  /** Sets whether no new task is admitted. */
  public PoolSettings paused(boolean paused) {
    request.setPaused(paused);
    return this;
  }

  /** Sets the attempts of a queued task until it is dead, 1 to 1,000. */
  public PoolSettings maxAttempts(int attempts) {
    request.setMaxAttempts(attempts);
    return this;
  }

  /** Removes all run-time settings first, so that those of the configuration file apply. */
  public PoolSettings reset() {
    request.setReset(true);
    return this;
  }

  ConfigurePoolRequest message(String pool) {
    return request.clone().setPool(pool).build();
  }
}

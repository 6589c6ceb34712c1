package io.tollgate;

import java.time.Duration;

/**
 * The current state of a pool.
 *
 * @param name its name
 * @param usage its usage
 * @param paused whether no new task is admitted
 * @param lease how long a lease runs
 * @param expiryGrace how long a lease that ended without a result keeps its slot
 * @param maxAttempts attempts of a queued task until it is dead
 * @param queued number of queued tasks, including running ones
 * @param waiters number of calls that wait for a slot, on all servers
 */
public record PoolStatus(
    String name,
    Usage usage,
    boolean paused,
    Duration lease,
    Duration expiryGrace,
    int maxAttempts,
    long queued,
    int waiters) {
  static PoolStatus of(io.tollgate.v1.Pool pool) {
    var config = pool.getConfig();
    return new PoolStatus(
        pool.getPool(),
        Usage.of(pool.getUsage()),
        config.getPaused(),
        Times.duration(config.getLeaseDuration()),
        Times.duration(config.getExpiryGrace()),
        config.getMaxAttempts(),
        pool.getQueued(),
        pool.getWaiters());
  }
}

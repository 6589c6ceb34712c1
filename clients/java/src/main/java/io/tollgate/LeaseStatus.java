package io.tollgate;

import java.time.Duration;
import java.time.Instant;

/**
 * A lease of a pool, as the server sees it.
 *
 * @param device the device that holds it
 * @param task the task it was granted for
 * @param token its fencing token, as unsigned number
 * @param grantTime when it was granted, on the clock of the server
 * @param expireTime when it ends unless renewed, on the clock of the server
 * @param expiresIn time until then at the moment of the answer
 */
public record LeaseStatus(
    String device,
    String task,
    long token,
    Instant grantTime,
    Instant expireTime,
    Duration expiresIn) {
  static LeaseStatus of(io.tollgate.v1.Lease lease) {
    return new LeaseStatus(
        lease.getDeviceId(),
        lease.getTaskId(),
        lease.getFencingToken(),
        Times.instant(lease.getGrantTime()),
        Times.instant(lease.getExpireTime()),
        Times.duration(lease.getExpiresIn()));
  }
}

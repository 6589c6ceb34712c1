package io.tollgate;

import java.time.Instant;
import java.util.Optional;

/**
 * A task that was queued.
 *
 * @param device the device that is to run it
 * @param task the task
 * @param state its state
 * @param attempt number of dispatches
 * @param enqueueTime when it was queued
 * @param expireTime the task is not dispatched after this time; empty for no end
 * @param token the token of its last lease, as unsigned number; 0 before the first
 * @param lastAttemptEnd how the attempt of its last lease ended; empty before the first lease, and
 *     while it is running or in its grace
 */
public record TaskStatus(
    String device,
    String task,
    TaskState state,
    int attempt,
    Instant enqueueTime,
    Optional<Instant> expireTime,
    long token,
    Optional<AttemptEnd> lastAttemptEnd) {
  static TaskStatus of(io.tollgate.v1.Task task) {
    return new TaskStatus(
        task.getDeviceId(),
        task.getTaskId(),
        Enums.of(TaskState.class, "TASK_STATE_", task.getState()),
        task.getAttempt(),
        Times.instant(task.getEnqueueTime()),
        task.hasExpireTime() ? Optional.of(Times.instant(task.getExpireTime())) : Optional.empty(),
        task.getFencingToken(),
        AttemptEnd.of(task.getLastAttemptEnd()));
  }
}

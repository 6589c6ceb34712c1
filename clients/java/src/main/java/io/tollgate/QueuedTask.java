package io.tollgate;

import com.google.protobuf.ByteString;
import java.time.Instant;
import java.util.Optional;

/**
 * A task to queue for a device.
 *
 * @param device the device that is to run it
 * @param task the task; unique within its device
 * @param payload payload for the device, at most 65,536 bytes
 * @param expireTime the task is not dispatched after this time; empty for no end
 */
@SuppressWarnings("ArrayRecordComponent") // the library only reads the payload
public record QueuedTask(String device, String task, byte[] payload, Optional<Instant> expireTime) {
  /** Creates a task without a payload and without an end. */
  public QueuedTask(String device, String task) {
    this(device, task, new byte[0], Optional.empty());
  }

  /** Creates a task without an end. */
  public QueuedTask(String device, String task, byte[] payload) {
    this(device, task, payload, Optional.empty());
  }

  io.tollgate.v1.QueuedTask message() {
    var message =
        io.tollgate.v1.QueuedTask.newBuilder()
            .setDeviceId(device)
            .setTaskId(task)
            .setPayload(ByteString.copyFrom(payload));
    expireTime.ifPresent(time -> message.setExpireTime(Times.proto(time)));
    return message.build();
  }
}

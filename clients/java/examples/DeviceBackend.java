import io.tollgate.Admission;
import io.tollgate.AdmitOptions;
import io.tollgate.CompleteVerdict;
import io.tollgate.Outcome;
import io.tollgate.Permit;
import io.tollgate.Pool;
import io.tollgate.QueuedTask;
import io.tollgate.Tollgate;
import io.tollgate.Worker;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;

/** Backend of devices that may use an external system, at most as many as its pool admits. */
public class DeviceBackend {
  public static void main(String[] arguments) throws Exception {
    String address = arguments.length > 0 ? arguments[0] : "127.0.0.1:50051";
    try (Tollgate tollgate = Tollgate.connect(address)) {
      Pool pool = tollgate.pool("ar:0571");
      runOneTask(pool, "device-1", "move-17");
      runQueuedTasks(pool, "device-2");
    }
  }

  /** Runs a task that the backend knows. Waits up to a minute for a slot. */
  static void runOneTask(Pool pool, String device, String task) throws Exception {
    AdmitOptions options = AdmitOptions.defaults().withMaxWait(Duration.ofMinutes(1));
    Admission admission = pool.admit(device, task, options);
    if (admission instanceof Admission.Admitted admitted) {
      // An exception of the body completes the task as FAILED.
      admitted.permit().run(DeviceBackend::transfer);
    } else {
      System.out.println(device + " may not run " + task + ": " + admission);
    }
  }

  /** Calls the external system, and stops if the permit is lost. */
  static void transfer(Permit permit) throws InterruptedException {
    for (int block = 0; block < 3 && permit.valid(); block++) {
      Thread.sleep(50); // send one block, with permit.token(), so that old holders are refused
    }
    CompleteVerdict verdict = permit.complete(Outcome.SUCCEEDED);
    System.out.println(permit.device() + " has run " + permit.task() + ": " + verdict);
  }

  /** Queues tasks for a device, and runs them with a worker until it is stopped. */
  static void runQueuedTasks(Pool pool, String device) throws InterruptedException {
    byte[] payload = "door 5".getBytes(StandardCharsets.UTF_8);
    pool.enqueue(List.of(new QueuedTask(device, "open-1", payload)));
    Worker.Handler handler = permit -> permit.payload();
    try (Worker worker = pool.worker(device, handler).start()) {
      while (worker.completed() == 0) {
        Thread.sleep(20);
      }
      System.out.println(device + " has run its queue");
    }
  }
}

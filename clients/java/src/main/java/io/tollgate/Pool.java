package io.tollgate;

import io.tollgate.v1.AdmissionServiceGrpc;
import io.tollgate.v1.AdmitTaskRequest;
import io.tollgate.v1.CancelTaskRequest;
import io.tollgate.v1.EnqueueTasksRequest;
import io.tollgate.v1.EvictTaskRequest;
import io.tollgate.v1.GetPoolRequest;
import io.tollgate.v1.ListLeasesRequest;
import io.tollgate.v1.ListTasksRequest;
import io.tollgate.v1.RequeueTaskRequest;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.concurrent.CompletableFuture;

/** One external system that admits a limited number of tasks at a time. */
public final class Pool {
  private static final int BATCH = 1_000;

  private final Core core;
  private final String name;

  Pool(Core core, String name) {
    this.core = core;
    this.name = name;
  }

  /** Returns the name. */
  public String name() {
    return name;
  }

  /** Asks for a slot with the default options. */
  public Admission admit(String device, String task) {
    return admit(device, task, AdmitOptions.defaults());
  }

  /** Asks for a slot for a task of a device. Can be repeated: a repeat returns the same lease. */
  public Admission admit(String device, String task, AdmitOptions options) {
    return Op.await(admitAsync(device, task, options));
  }

  /**
   * Asks for a slot without blocking. Cancel the future to leave the queue. A lease that the task
   * has just got is then ended in the background.
   */
  public CompletableFuture<Admission> admitAsync(String device, String task, AdmitOptions options) {
    if (task.isEmpty()) {
      String expected = "expected 1 to 256 bytes; poll takes a queued task";
      return Op.failed(TollgateException.badField("task_id", expected));
    }
    AdmitTaskRequest request =
        AdmitTaskRequest.newBuilder().setPool(name).setDeviceId(device).setTaskId(task).build();
    return new Admitter(core, request, options).send();
  }

  /** Asks for the oldest queued task of a device with the default options. */
  public Admission poll(String device) {
    return poll(device, AdmitOptions.defaults());
  }

  /**
   * Asks for the oldest queued task of a device. The permit has its payload. A repeat returns the
   * same task until it ends.
   */
  public Admission poll(String device, AdmitOptions options) {
    return Op.await(pollAsync(device, options));
  }

  /** Asks for the oldest queued task without blocking. */
  public CompletableFuture<Admission> pollAsync(String device, AdmitOptions options) {
    AdmitTaskRequest request =
        AdmitTaskRequest.newBuilder().setPool(name).setDeviceId(device).build();
    return new Admitter(core, request, options).send();
  }

  /**
   * Reports a result without a permit, for example in a process other than the one that was
   * admitted. Without a token, a result of an earlier lease is not refused.
   */
  public CompleteVerdict complete(
      String device, String task, OptionalLong token, Outcome outcome, byte[] result) {
    var request = Verdicts.message(new Bulk.Complete(name, device, task, token, outcome, result));
    return Verdicts.complete(call(AdmissionServiceGrpc.getCompleteTaskMethod(), request));
  }

  /** Renews a lease without a permit; the length is that of the pool if it is empty. */
  public RenewResult renew(
      String device, String task, OptionalLong token, Optional<Duration> lease) {
    var request = Verdicts.message(new Bulk.Renew(name, device, task, token, lease));
    return Verdicts.renewal(
        core,
        Op.await(
            core.calls().send(AdmissionServiceGrpc.getRenewTaskMethod(), CallPlan.SAFE, request)));
  }

  /**
   * Queues tasks in the given order, in calls of 1,000 tasks, each with five times the deadline of
   * a single call. Returns a status for each task. After an error the tasks can be queued again:
   * known ones answer DUPLICATE.
   */
  public List<EnqueueStatus> enqueue(List<QueuedTask> tasks) {
    List<EnqueueStatus> statuses = new ArrayList<>(tasks.size());
    for (int from = 0; from < tasks.size(); from += BATCH) {
      var request = EnqueueTasksRequest.newBuilder().setPool(name);
      tasks.subList(from, Math.min(tasks.size(), from + BATCH)).stream()
          .map(QueuedTask::message)
          .forEach(request::addTasks);
      var answer =
          call(AdmissionServiceGrpc.getEnqueueTasksMethod(), CallPlan.BULK, request.build());
      answer
          .getResultsList()
          .forEach(
              r -> statuses.add(Enums.of(EnqueueStatus.class, "ENQUEUE_STATUS_", r.getStatus())));
    }
    return statuses;
  }

  /** Removes a task from the queue of its device, or from the dead tasks. */
  public CancelResult cancel(String device, String task) {
    var request =
        CancelTaskRequest.newBuilder().setPool(name).setDeviceId(device).setTaskId(task).build();
    var answer = call(AdmissionServiceGrpc.getCancelTaskMethod(), request);
    return new CancelResult(
        Enums.of(CancelVerdict.class, "CANCEL_VERDICT_", answer.getVerdict()),
        answer.getReplayed());
  }

  /** Queues a dead task again, at the end of the queue of its device. Its attempts start again. */
  public RequeueVerdict requeue(String device, String task) {
    var request =
        RequeueTaskRequest.newBuilder().setPool(name).setDeviceId(device).setTaskId(task).build();
    var answer = call(AdmissionServiceGrpc.getRequeueTaskMethod(), request);
    return Enums.of(RequeueVerdict.class, "REQUEUE_VERDICT_", answer.getVerdict());
  }

  /**
   * Frees the slot of a task whose device will not return. The reason has at most 256 bytes; it is
   * stored with the task.
   */
  public EvictResult evict(String device, String task, String reason) {
    var request =
        EvictTaskRequest.newBuilder()
            .setPool(name)
            .setDeviceId(device)
            .setTaskId(task)
            .setReason(reason)
            .build();
    var answer = call(AdmissionServiceGrpc.getEvictTaskMethod(), request);
    return new EvictResult(
        Enums.of(EvictVerdict.class, "EVICT_VERDICT_", answer.getVerdict()), answer.getReplayed());
  }

  /** Returns the settings and the usage. */
  public PoolStatus status() {
    var request = GetPoolRequest.newBuilder().setPool(name).build();
    return PoolStatus.of(call(AdmissionServiceGrpc.getGetPoolMethod(), request).getPool());
  }

  /** Changes settings at run time and returns the pool after the change. */
  public PoolStatus configure(PoolSettings settings) {
    return PoolStatus.of(
        call(AdmissionServiceGrpc.getConfigurePoolMethod(), settings.message(name)).getPool());
  }

  /** Lists leases, the earliest end first; an empty token for the first page. */
  public Page<LeaseStatus> leases(String pageToken) {
    var request = ListLeasesRequest.newBuilder().setPool(name).setPageToken(pageToken).build();
    var answer = call(AdmissionServiceGrpc.getListLeasesMethod(), request);
    return new Page<>(
        answer.getLeasesList().stream().map(LeaseStatus::of).toList(), answer.getNextPageToken());
  }

  /**
   * Lists tasks that were queued, of one state; without a state, queued and running ones. An empty
   * token for the first page.
   */
  public Page<TaskStatus> tasks(Optional<TaskState> state, String pageToken) {
    var request = ListTasksRequest.newBuilder().setPool(name).setPageToken(pageToken);
    state.ifPresent(
        s -> request.setState(io.tollgate.v1.TaskState.valueOf("TASK_STATE_" + s.name())));
    var answer = call(AdmissionServiceGrpc.getListTasksMethod(), request.build());
    return new Page<>(
        answer.getTasksList().stream().map(TaskStatus::of).toList(), answer.getNextPageToken());
  }

  /** Returns the events from now on, see {@link Watch}. */
  public Watch<PoolEvent> watch() {
    return Watch.pool(core, name, null);
  }

  /** Returns the events after a cursor; "0" begins with the oldest stored event. */
  public Watch<PoolEvent> watch(String after) {
    return Watch.pool(core, name, after);
  }

  /** Returns a worker that runs the queued tasks of a device; start it with its build method. */
  public Worker.Builder worker(String device, Worker.Handler handler) {
    return new Worker.Builder(this, device, handler);
  }

  private <Q, A> A call(io.grpc.MethodDescriptor<Q, A> method, Q request) {
    return call(method, CallPlan.SAFE, request);
  }

  private <Q, A> A call(io.grpc.MethodDescriptor<Q, A> method, CallPlan plan, Q request) {
    return Op.await(core.calls().send(method, plan, request)).answer();
  }

  /** Returns whether the client of this pool is closed. */
  boolean clientClosed() {
    return core.closed();
  }
}

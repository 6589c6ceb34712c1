import type { Core } from "./connection.js";
import { admit, type Admission, type AdmitOptions, readUsage, type Usage } from "./admission.js";
import {
  bytes,
  date,
  milliseconds,
  nameOf,
  type NameOf,
  optionalDuration,
  timestamp,
} from "./core/convert.js";
import { badField } from "./core/errors.js";
import type { CallOptions } from "./core/options.js";
import {
  AdmissionService,
  AttemptEnd as AttemptEndNumber,
  CancelVerdict as CancelVerdictNumber,
  EnqueueStatus as EnqueueStatusNumber,
  EvictVerdict as EvictVerdictNumber,
  type Pool as PoolMessage,
  RequeueVerdict as RequeueVerdictNumber,
  type Task as TaskMessage,
  TaskState as TaskStateNumber,
} from "./gen/tollgate/v1/admission_pb.js";
import {
  type CompleteOptions,
  completeTask,
  type CompleteVerdict,
  renewal,
  renewRequest,
  type RenewVerdict,
} from "./permit.js";
import type { RenewOptions } from "./held.js";
import { type PoolEvent, watchPool, type WatchOptions } from "./watch.js";
import { type Handler, Worker, type WorkerOptions } from "./worker.js";

/** Whether a task was queued. */
export type EnqueueStatus = NameOf<typeof EnqueueStatusNumber>;
/** Whether a slot was freed. */
export type EvictVerdict = NameOf<typeof EvictVerdictNumber>;
/** Whether a task was cancelled. */
export type CancelVerdict = NameOf<typeof CancelVerdictNumber>;
/** Whether a dead task was queued again. */
export type RequeueVerdict = NameOf<typeof RequeueVerdictNumber>;
/** State of a task that was queued. */
export type TaskState = NameOf<typeof TaskStateNumber>;

/** How an attempt of a queued task ended without success. */
export type AttemptEnd = NameOf<typeof AttemptEndNumber>;

/** A task to queue. */
export interface NewTask {
  readonly device: string;
  /** The task; unique within its device. */
  readonly task: string;
  /** Payload for the device: at most 65,536 bytes. Text is sent as UTF-8. */
  readonly payload?: Uint8Array | string | undefined;
  /** The task is not dispatched after this time, on the clock of the server. Default: no end. */
  readonly expireTime?: Date | undefined;
}

/** The current state of a pool. */
export interface PoolStatus extends Usage {
  readonly pool: string;
  /** Slots in use beyond a lowered capacity. */
  readonly overBy: number;
  readonly paused: boolean;
  /** Length of new leases in milliseconds. */
  readonly leaseMs: number;
  /** How long a lease that ended without a result keeps its slot, in milliseconds. */
  readonly graceMs: number;
  /** Attempts of a queued task until it is dead. */
  readonly maxAttempts: number;
  /** Number of queued tasks, including running ones. */
  readonly queued: bigint;
  /** Number of waiting calls, on all servers. */
  readonly waiters: number;
}

/** Settings of a pool to change; absent ones stay. */
export interface PoolSettings {
  /** Slots, 0 to 1,000,000. */
  readonly capacity?: number | undefined;
  /** Length of new leases in milliseconds, 100 ms to 24 h. */
  readonly leaseMs?: number | undefined;
  /** Grace of new leases in milliseconds, 0 to 30 days. */
  readonly graceMs?: number | undefined;
  /** Whether no new task is admitted. */
  readonly paused?: boolean | undefined;
  /** Attempts of a queued task until it is dead, 1 to 1,000. */
  readonly maxAttempts?: number | undefined;
  /** True first removes all run-time settings. */
  readonly reset?: boolean | undefined;
}

/** A lease that holds a slot. */
export interface LeaseInfo {
  readonly device: string;
  readonly task: string;
  readonly token: bigint;
  /** When it was granted and when it ends, on the clock of the server. */
  readonly grantTime: Date | undefined;
  readonly expireTime: Date | undefined;
}

/** A task that was queued. */
export interface TaskInfo {
  readonly device: string;
  readonly task: string;
  readonly state: TaskState;
  /** Number of dispatches. */
  readonly attempt: number;
  /** How the attempt of its last lease ended; undefined before the first, and while it holds a slot. */
  readonly lastAttemptEnd: AttemptEnd | undefined;
  readonly enqueueTime: Date | undefined;
  readonly expireTime: Date | undefined;
}

/** Options of a call about a task without its permit. */
export interface TokenOption {
  /** Token of the lease; refuses a call about an earlier lease. Default: not compared. */
  readonly token?: bigint | undefined;
}

/** A pool: the slots of one external system. It needs no creation. */
export class Pool {
  /** Name of the pool. */
  readonly name: string;
  readonly #core: Core;

  /** @internal */
  constructor(core: Core, name: string) {
    this.#core = core;
    this.name = name;
  }

  /**
   * Asks for a slot for a task of a device. A refusal is an answer. A repeat returns the same lease
   * while it runs.
   */
  async admit(device: string, task: string, options: AdmitOptions = {}): Promise<Admission> {
    if (task === "") throw badField("task_id", "expected 1 to 256 bytes; poll takes a queued task");
    return admit(this.#core, { pool: this.name, device, task }, options);
  }

  /** Asks for a slot for the oldest queued task of a device. */
  async poll(device: string, options: AdmitOptions = {}): Promise<Admission> {
    return admit(this.#core, { pool: this.name, device, task: "" }, options);
  }

  /** Makes a worker, which runs the queued tasks of a device. Start it with `start`. */
  worker(device: string, handler: Handler, options: WorkerOptions = {}): Worker {
    return new Worker(this.#core, this, device, handler, options);
  }

  /** Reports the result of a task without its permit. Retries until the verdict is known. */
  async complete(
    device: string,
    task: string,
    options: CompleteOptions & TokenOption = {},
  ): Promise<CompleteVerdict> {
    return completeTask(this.#core, { pool: this.name, device, task }, options);
  }

  /**
   * Renews the lease of a task without its permit.
   * @returns the verdict, and on RENEWED the time left of the lease in milliseconds when the call
   * returns
   */
  async renew(
    device: string,
    task: string,
    options: RenewOptions & TokenOption = {},
  ): Promise<{ verdict: RenewVerdict; validForMs: number }> {
    const { caller } = this.#core;
    const request = renewRequest({ pool: this.name, device, task }, options);
    const { verdict, granted } = renewal(
      await caller.call(AdmissionService.method.renewTask, request, options),
    );
    if (granted === undefined) return { verdict, validForMs: 0 };
    return { verdict, validForMs: Math.max(granted.sentAt + granted.expiresInMs - caller.clock.now(), 0) };
  }

  /**
   * Queues 1 to 1,000 tasks in the given order. A repeat answers DUPLICATE for a known task.
   * @returns the status of each task, in the order of `tasks`
   */
  async enqueue(tasks: readonly NewTask[], options: CallOptions = {}): Promise<EnqueueStatus[]> {
    const request = {
      pool: this.name,
      tasks: tasks.map(({ device, task, payload, expireTime }) => ({
        deviceId: device,
        taskId: task,
        payload: bytes(payload),
        expireTime: expireTime === undefined ? undefined : timestamp(expireTime),
      })),
    };
    const { message } = await this.#core.caller.call(AdmissionService.method.enqueueTasks, request, options);
    return message.results.map(({ status }) => nameOf(EnqueueStatusNumber, status));
  }

  /**
   * Frees the slot of a task whose device will not return.
   * @param reason stored with the task, at most 256 bytes
   */
  async evict(
    device: string,
    task: string,
    options: CallOptions & { readonly reason?: string } = {},
  ): Promise<{ verdict: EvictVerdict; replayed: boolean }> {
    const request = { pool: this.name, deviceId: device, taskId: task, reason: options.reason ?? "" };
    const { message } = await this.#core.caller.call(AdmissionService.method.evictTask, request, options);
    return { verdict: nameOf(EvictVerdictNumber, message.verdict), replayed: message.replayed };
  }

  /** Removes a task from the queue of its device. */
  async cancel(
    device: string,
    task: string,
    options: CallOptions = {},
  ): Promise<{ verdict: CancelVerdict; replayed: boolean }> {
    const request = { pool: this.name, deviceId: device, taskId: task };
    const { message } = await this.#core.caller.call(AdmissionService.method.cancelTask, request, options);
    return { verdict: nameOf(CancelVerdictNumber, message.verdict), replayed: message.replayed };
  }

  /** Queues a dead task again, at the end of the queue of its device. Its attempts start again. */
  async requeue(device: string, task: string, options: CallOptions = {}): Promise<RequeueVerdict> {
    const request = { pool: this.name, deviceId: device, taskId: task };
    const { message } = await this.#core.caller.call(AdmissionService.method.requeueTask, request, options);
    return nameOf(RequeueVerdictNumber, message.verdict);
  }

  /** Returns settings and usage. */
  async status(options: CallOptions = {}): Promise<PoolStatus> {
    const { message } = await this.#core.caller.call(
      AdmissionService.method.getPool,
      { pool: this.name },
      options,
    );
    return readPool(message.pool);
  }

  /** Changes settings at run time, on all servers. Returns the pool after the change. */
  async configure(settings: PoolSettings, options: CallOptions = {}): Promise<PoolStatus> {
    const { leaseMs, graceMs, ...others } = settings;
    const request = {
      ...others,
      pool: this.name,
      leaseDuration: optionalDuration(leaseMs),
      expiryGrace: optionalDuration(graceMs),
    };
    const { message } = await this.#core.caller.call(AdmissionService.method.configurePool, request, options);
    return readPool(message.pool);
  }

  /** Lists the leases that hold a slot, the earliest end first. */
  async *leases(options: CallOptions = {}): AsyncGenerator<LeaseInfo, void, undefined> {
    let pageToken = "";
    do {
      const request = { pool: this.name, pageSize: 1000, pageToken };
      const { message } = await this.#core.caller.call(AdmissionService.method.listLeases, request, options);
      for (const { deviceId, taskId, fencingToken, grantTime, expireTime } of message.leases) {
        const times = { grantTime: date(grantTime), expireTime: date(expireTime) };
        yield { device: deviceId, task: taskId, token: fencingToken, ...times };
      }
      pageToken = message.nextPageToken;
    } while (pageToken !== "");
  }

  /**
   * Lists the tasks that were queued.
   * @param state state of the tasks to list. Default: queued and running ones
   */
  async *tasks(state?: TaskState, options: CallOptions = {}): AsyncGenerator<TaskInfo, void, undefined> {
    let pageToken = "";
    do {
      const number = state === undefined ? TaskStateNumber.UNSPECIFIED : TaskStateNumber[state];
      const request = { pool: this.name, state: number, pageSize: 1000, pageToken };
      const { message } = await this.#core.caller.call(AdmissionService.method.listTasks, request, options);
      for (const task of message.tasks) yield taskInfo(task);
      pageToken = message.nextPageToken;
    } while (pageToken !== "");
  }

  /** Follows the events of the pool. Ends with `signal` or when the loop is left. */
  watch(options: WatchOptions = {}): AsyncGenerator<PoolEvent, void, undefined> {
    return watchPool(this.#core.caller, this.name, options);
  }
}

/** Reads a task. */
function taskInfo(task: TaskMessage): TaskInfo {
  const end = nameOf(AttemptEndNumber, task.lastAttemptEnd) as AttemptEnd | "UNSPECIFIED";
  return {
    device: task.deviceId,
    task: task.taskId,
    state: nameOf(TaskStateNumber, task.state),
    attempt: task.attempt,
    lastAttemptEnd: end === "UNSPECIFIED" ? undefined : end,
    enqueueTime: date(task.enqueueTime),
    expireTime: date(task.expireTime),
  };
}

/** Reads a pool. */
export function readPool(pool: PoolMessage | undefined): PoolStatus {
  return {
    ...readUsage(pool?.usage),
    pool: pool?.pool ?? "",
    overBy: pool?.usage?.overBy ?? 0,
    paused: pool?.config?.paused ?? false,
    leaseMs: milliseconds(pool?.config?.leaseDuration),
    graceMs: milliseconds(pool?.config?.expiryGrace),
    maxAttempts: pool?.config?.maxAttempts ?? 0,
    queued: pool?.queued ?? 0n,
    waiters: pool?.waiters ?? 0,
  };
}

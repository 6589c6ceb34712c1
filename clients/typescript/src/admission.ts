import type { Core } from "./connection.js";
import type { Answer } from "./core/caller.js";
import { milliseconds, nameOf, type NameOf } from "./core/convert.js";
import { unknownAnswer } from "./core/errors.js";
import type { CallOptions } from "./core/options.js";
import {
  AdmissionService,
  AdmitDecision,
  type AdmitTaskRequestSchema,
  type AdmitTaskResponse,
  type Usage as UsageMessage,
} from "./gen/tollgate/v1/admission_pb.js";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { optionalDuration } from "./core/convert.js";
import { granted, Permit, renewRequest, type TaskName } from "./permit.js";
import type { Grant } from "./claims.js";
import { isStale, waiting } from "./waits.js";

/** Minimum lease that a server grants, in milliseconds. */
const SHORTEST_LEASE_MS = 100;

/** Usage of a pool. */
export interface Usage {
  /** Slots of the pool. */
  readonly capacity: number;
  /** Slots held by leases. */
  readonly inUse: number;
  /** Free slots. */
  readonly available: number;
}

/** A task that may run. */
export interface Admitted {
  readonly outcome: "ADMITTED";
  /** The right to run the task. */
  readonly permit: Permit;
  readonly usage: Usage;
}

/**
 * A task that may not run.
 *
 * - FULL: all slots are in use. PAUSED: the pool admits no new task. Ask again after
 *   `retryAfterMs`.
 * - NO_TASK: nothing is queued for the device.
 * - ALREADY_COMPLETED: the task has a result. Do not run it again under this name.
 */
export interface Refused {
  readonly outcome: Exclude<NameOf<typeof AdmitDecision>, "ADMITTED">;
  /** When to ask again, in milliseconds; undefined if asking again is useless. */
  readonly retryAfterMs: number | undefined;
  readonly usage: Usage;
}

/** The answer to an admission. */
export type Admission = Admitted | Refused;

/** Options of an admission. */
export interface AdmitOptions extends CallOptions {
  /** How long to wait for a slot, in milliseconds, 0 and more. Default: 0, no waiting. */
  readonly waitMs?: number | undefined;
  /** Length of the lease in milliseconds, 100 ms to 24 h. Default: that of the pool. */
  readonly leaseMs?: number | undefined;
  /** Whether the lease is renewed until the task is completed. Default: true. */
  readonly keeper?: boolean | undefined;
}

/** Asks for a slot; an empty `task` asks for the oldest queued task of the device. */
export async function admit(core: Core, name: TaskName, options: AdmitOptions): Promise<Admission> {
  const claim = await core.claims.enter("task", name.pool, name.device, name.task);
  let ended = Promise.resolve<Answer<AdmitTaskResponse> | undefined>(undefined);
  try {
    const answer = await call(core, name, options, (end) => {
      ended = end;
    });
    const admission = read(core, name, options, answer);
    claim.answered(answer.message.lease?.fencingToken);
    return admission;
  } catch (error) {
    void claim.withdraw(
      ended.then((answer) => grantOf(core, answer)),
      ({ token, task }) => shorten(core, { ...name, task }, token),
    );
    throw error;
  }
}

/** Returns the lease in an answer. */
function grantOf(
  core: Core,
  answer: Answer<AdmitTaskResponse> | undefined,
): (Grant & { readonly task: string }) | undefined {
  const lease = answer?.message.lease;
  if (answer === undefined || lease === undefined) return undefined;
  const until = core.caller.clock.now() + milliseconds(lease.expiresIn);
  return { token: lease.fencingToken, task: lease.taskId, replayed: answer.message.replayed, until };
}

/**
 * Ends a lease that no caller has received, by renewing it for the minimum time and waiting until
 * it ends. The task therefore has no result, and a later call gets a new lease.
 */
async function shorten(core: Core, name: TaskName, token: bigint | undefined): Promise<void> {
  const request = renewRequest(name, { token, leaseMs: SHORTEST_LEASE_MS });
  await core.caller.once(AdmissionService.method.renewTask, request);
  await core.caller.idle(SHORTEST_LEASE_MS);
}

/** Makes the message of an admission. */
export function admitRequest(
  name: TaskName,
  leaseMs: number | undefined,
): MessageInitShape<typeof AdmitTaskRequestSchema> {
  return {
    pool: name.pool,
    deviceId: name.device,
    taskId: name.task,
    leaseDuration: optionalDuration(leaseMs),
  };
}

/** Reads the answer to an admission. */
export function read(
  core: Core,
  name: TaskName,
  options: AdmitOptions,
  { message, sentAt }: Answer<AdmitTaskResponse>,
): Admission {
  const usage = readUsage(message.usage);
  const outcome = nameOf(AdmitDecision, message.decision);
  const isKnown = message.decision in AdmitDecision && message.decision !== AdmitDecision.UNSPECIFIED;
  if (!isKnown || (outcome === "ADMITTED" && message.lease === undefined)) {
    throw unknownAnswer("AdmitDecision", message.decision);
  }
  if (outcome !== "ADMITTED") {
    const retryAfterMs = message.retryAfter === undefined ? undefined : milliseconds(message.retryAfter);
    return { outcome, retryAfterMs, usage };
  }
  const task = message.lease?.taskId ?? name.task;
  const permit = new Permit(
    core,
    { ...name, task },
    message.lease?.fencingToken ?? 0n,
    granted(message.lease, sentAt),
    {
      asked: name.task,
      replayed: message.replayed,
      degraded: message.degraded,
      keeper: options.keeper ?? true,
      leaseMs: options.leaseMs,
      payload: message.task?.payload,
      attempt: message.task?.attempt,
    },
  );
  return { outcome, permit, usage };
}

/** Reads the usage of a pool. */
export function readUsage(usage: UsageMessage | undefined): Usage {
  return { capacity: usage?.capacity ?? 0, inUse: usage?.inUse ?? 0, available: usage?.available ?? 0 };
}

/** Makes the calls of an admission, and says how a wait that fails ends, and its grant. */
async function call(
  core: Core,
  name: TaskName,
  options: AdmitOptions,
  onFailure: (ended: Promise<Answer<AdmitTaskResponse> | undefined>) => void,
): Promise<Answer<AdmitTaskResponse>> {
  const { waitMs = 0 } = options;
  if (!(waitMs > 0)) return ask(core, name, options);
  const answer = await waiting(core.caller, {
    waitMs,
    signal: options.signal,
    send: (maxWaitMs, callOptions) => {
      const request = { ...admitRequest(name, options.leaseMs), maxWait: optionalDuration(maxWaitMs) };
      return core.caller.wait(AdmissionService.method.admitTask, request, callOptions);
    },
    pauseMs: ({ decision, retryAfter }) =>
      decision === AdmitDecision.FULL ? milliseconds(retryAfter) : undefined,
    onFailure,
  });
  onFailure(Promise.resolve(answer));
  return refreshed(core, name, options, answer);
}

function ask(core: Core, name: TaskName, options: AdmitOptions): Promise<Answer<AdmitTaskResponse>> {
  return core.caller.call(AdmissionService.method.admitTask, admitRequest(name, options.leaseMs), options);
}

/** Asks again for a lease whose call has waited: the repeat says how much of the lease is left. */
async function refreshed(
  core: Core,
  name: TaskName,
  options: AdmitOptions,
  answer: Answer<AdmitTaskResponse>,
): Promise<Answer<AdmitTaskResponse>> {
  const { lease } = answer.message;
  if (lease === undefined || !isStale(core.caller, answer.sentAt, milliseconds(lease.expiresIn)))
    return answer;
  const repeat = await ask(core, { ...name, task: lease.taskId }, options);
  const { message } = repeat;
  if (message.lease?.fencingToken !== lease.fencingToken) return repeat;
  return {
    ...repeat,
    message: { ...message, replayed: answer.message.replayed, task: message.task ?? answer.message.task },
  };
}

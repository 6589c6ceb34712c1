import type { MessageInitShape } from "@bufbuild/protobuf";
import type { Core } from "./connection.js";
import type { Answer } from "./core/caller.js";
import { bytes, milliseconds, nameOf, type NameOf, optionalDuration } from "./core/convert.js";
import { TollgateError } from "./core/errors.js";
import type { CallOptions } from "./core/options.js";
import {
  AdmissionService,
  type CompleteTaskRequestSchema,
  CompleteVerdict as CompleteVerdictNumber,
  type Lease,
  Outcome as OutcomeNumber,
  type RenewTaskRequestSchema,
  type RenewTaskResponse,
  RenewVerdict as RenewVerdictNumber,
} from "./gen/tollgate/v1/admission_pb.js";
import { type Granted, Held, type RenewOptions } from "./held.js";
import { persist } from "./persist.js";

/** How a task went. */
export type Outcome = NameOf<typeof OutcomeNumber>;
/** Whether a result was recorded. */
export type CompleteVerdict = NameOf<typeof CompleteVerdictNumber>;
/** Whether a lease was extended. */
export type RenewVerdict = NameOf<typeof RenewVerdictNumber>;

/** A pool, a device and a task of the device. */
export interface TaskName {
  readonly pool: string;
  readonly device: string;
  readonly task: string;
}

/** A result to report. */
export interface CompleteOptions extends CallOptions {
  /** How the task went. Default: SUCCEEDED. */
  readonly outcome?: Outcome | undefined;
  /** The result, kept for the retention of the pool: at most 65,536 bytes. Text is sent as UTF-8. */
  readonly result?: Uint8Array | string | undefined;
}

/** Details of an admission, apart from its lease. */
export interface PermitFacts {
  /** The task of the request; empty if it asked for a queued one. */
  readonly asked: string;
  readonly replayed: boolean;
  readonly degraded: boolean;
  readonly keeper: boolean;
  readonly leaseMs: number | undefined;
  readonly payload?: Uint8Array | undefined;
  readonly attempt?: number | undefined;
}

/**
 * The right of one task to use an external system.
 *
 * Complete it with {@link Permit.complete}. Leave it with `await using`, or call
 * {@link Permit.close} in a `finally`: a permit that is neither completed nor closed is renewed as
 * long as the process runs.
 */
export class Permit extends Held {
  /** The pool. */
  readonly pool: string;
  /** The device. */
  readonly device: string;
  /** The task. */
  readonly task: string;
  /** Payload of a queued task; undefined if the task was not queued. */
  readonly payload: Uint8Array | undefined;
  /** Number of dispatches of a queued task, including this one; undefined if it was not queued. */
  readonly attempt: number | undefined;
  /** True if the server answered without its store, according to `on_store_failure` of the pool. */
  readonly degraded: boolean;

  readonly #core: Core;
  readonly #leaseMs: number | undefined;
  readonly #asked: string;

  /** @internal */
  constructor(core: Core, name: TaskName, token: bigint, granted: Granted, facts: PermitFacts) {
    super(core, token, facts.replayed, granted, facts.keeper);
    this.#core = core;
    this.pool = name.pool;
    this.device = name.device;
    this.task = name.task;
    this.degraded = facts.degraded;
    this.payload = facts.payload;
    this.attempt = facts.attempt;
    this.#leaseMs = facts.leaseMs;
    this.#asked = facts.asked;
  }

  /**
   * Reports the result and frees the slot. Retries until the verdict is known, even after the lease
   * has ended; `signal` or closing the connection ends the retries.
   *
   * ALREADY_COMPLETED is a success, unless another caller reports results of the task. LATE: the
   * lease had ended; the result is recorded. STALE_TOKEN: the task was admitted again.
   * @throws TollgateError if the server refuses the request, for example INVALID_ARGUMENT
   */
  async complete(options: CompleteOptions = {}): Promise<CompleteVerdict> {
    return this.giveUp(() => completeTask(this.#core, this, { ...options, token: this.token }));
  }

  /**
   * Renews the lease now, once. A permit with a keeper does not need it. Any answer other than
   * RENEWED means that the lease is lost.
   */
  async renew(options: RenewOptions = {}): Promise<RenewVerdict> {
    const refusal = await this.renewOnce(options);
    return (refusal ?? "RENEWED") as RenewVerdict;
  }

  /**
   * Runs `body` in the scope of the permit. If it throws, the task is completed as FAILED, and the
   * error is thrown again, at the latest after the deadline of one call: without an answer the
   * report continues in the background until the lease ends. The permit is closed in any case.
   */
  async use<T>(body: (permit: this) => T | Promise<T>): Promise<T> {
    try {
      return await body(this);
    } catch (error) {
      if (this.valid) {
        const request = completeRequest(this, { outcome: "FAILED", token: this.token });
        await this.leave(["task", this.pool, this.device, this.#asked], () =>
          this.#core.caller.once(AdmissionService.method.completeTask, request),
        );
      }
      throw error;
    } finally {
      this.close();
    }
  }

  /** Stops the keeper. A task without a result keeps its slot until the lease ends. */
  close(): void {
    this.end();
  }

  /** Closes the permit. */
  [Symbol.asyncDispose](): Promise<void> {
    this.close();
    return Promise.resolve();
  }

  protected async requestRenewal(options: RenewOptions): Promise<Granted | string> {
    const { leaseMs = this.#leaseMs, ...call } = options;
    const request = renewRequest(this, { leaseMs, token: this.token });
    const answer = await this.#core.caller.once(AdmissionService.method.renewTask, request, call);
    const renewed = renewal(answer);
    return renewed.granted ?? renewed.verdict;
  }
}

/** Returns the lease in an answer, counted from before its request was sent. */
export function granted(lease: Pick<Lease, "expiresIn"> | undefined, sentAt: number): Granted {
  if (lease?.expiresIn !== undefined) return { sentAt, expiresInMs: milliseconds(lease.expiresIn) };
  const message = "The answer has a lease without expires_in. Upgrade the server.";
  throw new TollgateError({ code: "UNIMPLEMENTED", reason: "EXPIRES_IN_MISSING", message });
}

/** Sends CompleteTask until the verdict is known. */
export async function completeTask(
  core: Core,
  name: TaskName,
  options: CompleteOptions & { readonly token?: bigint | undefined },
): Promise<CompleteVerdict> {
  const request = completeRequest(name, options);
  const { message } = await persist(core.caller, options, () =>
    core.caller.once(AdmissionService.method.completeTask, request, options),
  );
  return nameOf(CompleteVerdictNumber, message.verdict);
}

/** Makes the message of a result. */
export function completeRequest(
  name: TaskName,
  options: CompleteOptions & { readonly token?: bigint | undefined },
): MessageInitShape<typeof CompleteTaskRequestSchema> {
  return {
    pool: name.pool,
    deviceId: name.device,
    taskId: name.task,
    fencingToken: options.token,
    outcome: OutcomeNumber[options.outcome ?? "SUCCEEDED"],
    result: bytes(options.result),
  };
}

/** Makes the message of a renewal. */
export function renewRequest(
  name: TaskName,
  options: { readonly token?: bigint | undefined; readonly leaseMs?: number | undefined },
): MessageInitShape<typeof RenewTaskRequestSchema> {
  return {
    pool: name.pool,
    deviceId: name.device,
    taskId: name.task,
    fencingToken: options.token,
    leaseDuration: optionalDuration(options.leaseMs),
  };
}

/** The answer to a renewal: the lease on RENEWED. */
export interface Renewal {
  readonly verdict: RenewVerdict;
  readonly granted: Granted | undefined;
}

/** Reads the answer to a renewal. */
export function renewal({ message, sentAt }: Answer<RenewTaskResponse>): Renewal {
  const verdict = nameOf(RenewVerdictNumber, message.verdict);
  return { verdict, granted: verdict === "RENEWED" ? granted(message.lease, sentAt) : undefined };
}

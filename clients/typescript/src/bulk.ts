import { type Admission, admitRequest, type AdmitOptions, read } from "./admission.js";
import type { Core } from "./connection.js";
import type { Answer } from "./core/caller.js";
import { milliseconds, nameOf } from "./core/convert.js";
import { asTollgateError, codeName, TollgateError } from "./core/errors.js";
import type { CallOptions } from "./core/options.js";
import {
  AdmissionService,
  type AdmitTaskResponse,
  type AdmitTasksResponse,
  type CompleteTaskResponse,
  type CompleteTasksResponse,
  CompleteVerdict as CompleteVerdictNumber,
  type ItemError,
  type RenewTaskResponse,
  type RenewTasksResponse,
} from "./gen/tollgate/v1/admission_pb.js";
import {
  type CompleteOptions,
  completeRequest,
  type CompleteVerdict,
  renewal,
  renewRequest,
  type RenewVerdict,
  type TaskName,
} from "./permit.js";
import type { TokenOption } from "./pool.js";

/** Largest number of items of one call. */
const ITEMS_MAX = 1000;
/** Upper bound of the results of one call, in bytes; a message has at most 4 MiB. */
const BYTES_MAX = 3 * 1024 * 1024;

/** A task to admit; an empty `task` stands for the oldest queued task of the device. */
export type AdmitItem = TaskName & Pick<AdmitOptions, "leaseMs" | "keeper">;
/** A result to report. */
export type CompleteItem = TaskName & TokenOption & Pick<CompleteOptions, "outcome" | "result">;
/** A lease to renew. */
export type RenewItem = TaskName & TokenOption & { readonly leaseMs?: number | undefined };

/** An item that could not be decided. */
export interface Failed {
  readonly outcome: "ERROR";
  readonly error: TollgateError;
}

/** The answer to a result of a batch. */
export type CompleteResult = { readonly outcome: CompleteVerdict } | Failed;
/**
 * The answer to a renewal of a batch; `validForMs` is the time left of the lease when the call
 * returns.
 */
export type RenewResult = { readonly outcome: RenewVerdict; readonly validForMs: number } | Failed;

/** The result of one item, as all batches have it. */
interface ItemResult<R> {
  readonly result:
    | { readonly case: "response"; readonly value: R }
    | { readonly case: "error"; readonly value: ItemError }
    | { readonly case: undefined; readonly value?: undefined };
}

/** Admits tasks in batches. */
export function admitMany(
  core: Core,
  items: readonly AdmitItem[],
  options: CallOptions,
): Promise<(Admission | Failed)[]> {
  const send = (batch: readonly AdmitItem[]): Promise<Answer<AdmitTasksResponse>> => {
    const requests = batch.map((item) => admitRequest(item, item.leaseMs));
    return core.caller.call(AdmissionService.method.admitTasks, { requests }, options);
  };
  return batches(items, send, (item, answer: Answer<AdmitTaskResponse>) => read(core, item, item, answer));
}

/** Reports results in batches. */
export function completeMany(
  core: Core,
  items: readonly CompleteItem[],
  options: CallOptions,
): Promise<CompleteResult[]> {
  const send = (batch: readonly CompleteItem[]): Promise<Answer<CompleteTasksResponse>> => {
    const requests = batch.map((item) => completeRequest(item, item));
    return core.caller.call(AdmissionService.method.completeTasks, { requests }, options);
  };
  return batches(items, send, (_, { message }: Answer<CompleteTaskResponse>) => ({
    outcome: nameOf(CompleteVerdictNumber, message.verdict),
  }));
}

/** Renews leases in batches. */
export function renewMany(
  core: Core,
  items: readonly RenewItem[],
  options: CallOptions,
): Promise<RenewResult[]> {
  const send = (batch: readonly RenewItem[]): Promise<Answer<RenewTasksResponse>> => {
    const requests = batch.map((item) => renewRequest(item, item));
    return core.caller.call(AdmissionService.method.renewTasks, { requests }, options);
  };
  return batches(items, send, (_, answer: Answer<RenewTaskResponse>) => {
    const { verdict, granted } = renewal(answer);
    const now = core.caller.clock.now();
    const validForMs = granted === undefined ? 0 : Math.max(granted.sentAt + granted.expiresInMs - now, 0);
    return { outcome: verdict, validForMs };
  });
}

/**
 * Sends the items in calls of at most 1,000, one after the other. If a call fails as a whole, its
 * items have its error. If every call fails, the first error is thrown.
 */
async function batches<Item extends object, Response, Result>(
  items: readonly Item[],
  send: (batch: readonly Item[]) => Promise<Answer<{ readonly results: readonly ItemResult<Response>[] }>>,
  readItem: (item: Item, answer: Answer<Response>) => Result,
): Promise<(Result | Failed)[]> {
  const results: (Result | Failed)[] = [];
  let failure: TollgateError | undefined;
  let decided = false;
  for (const batch of split(items)) {
    const answer = await send(batch).catch(asTollgateError);
    if (answer instanceof TollgateError) {
      failure ??= answer;
      results.push(...batch.map(() => failed(answer)));
      continue;
    }
    decided = true;
    batch.forEach((item, index) => {
      const result = answer.message.results[index]?.result;
      try {
        if (result?.case !== "response") throw itemError(result?.value);
        results.push(readItem(item, { message: result.value, sentAt: answer.sentAt }));
      } catch (error) {
        results.push(failed(asTollgateError(error)));
      }
    });
  }
  if (failure !== undefined && !decided) throw failure;
  return results;
}

function failed(error: TollgateError): Failed {
  return { outcome: "ERROR", error };
}

/** Splits items by number and by the size of their results. */
function* split<Item extends object>(items: readonly Item[]): Generator<Item[], void, undefined> {
  let batch: Item[] = [];
  let size = 0;
  for (const item of items) {
    const bytes =
      "result" in item && item.result !== undefined ? (item.result as string | Uint8Array).length * 3 : 0;
    if (batch.length === ITEMS_MAX || (batch.length > 0 && size + bytes > BYTES_MAX)) {
      yield batch;
      batch = [];
      size = 0;
    }
    batch.push(item);
    size += bytes;
  }
  if (batch.length > 0) yield batch;
}

function itemError(error: ItemError | undefined): TollgateError {
  if (error === undefined)
    return new TollgateError({ code: "INTERNAL", message: "The answer has no result for the item." });
  return new TollgateError({
    code: codeName(error.code),
    reason: error.reason,
    message: error.message,
    violations: error.violations.map(({ field, description }) => ({ field, description })),
    retryAfterMs: error.retryAfter === undefined ? undefined : milliseconds(error.retryAfter),
  });
}

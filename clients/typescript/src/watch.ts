import type { Caller } from "./core/caller.js";
import { date, nameOf, type NameOf } from "./core/convert.js";
import { asTollgateError, type TollgateError } from "./core/errors.js";
import {
  AdmissionService,
  Outcome as OutcomeNumber,
  type PoolEvent as PoolEventMessage,
  PoolEventKind as PoolEventKindNumber,
} from "./gen/tollgate/v1/admission_pb.js";
import {
  type RateEvent as RateEventMessage,
  RateEventKind as RateEventKindNumber,
  RateService,
} from "./gen/tollgate/v1/rate_pb.js";
import type { Outcome } from "./permit.js";
import { type Ban, readBan } from "./ban.js";

/** Kind of an event of a pool. */
export type PoolEventKind = NameOf<typeof PoolEventKindNumber>;
/** Kind of an event of a policy. */
export type RateEventKind = NameOf<typeof RateEventKindNumber>;

/** Options of a watch. */
export interface WatchOptions {
  /** Cursor of the last event that was seen; "0" for all stored events. Default: new events. */
  readonly after?: string | undefined;
  /** Ends the watch. */
  readonly signal?: AbortSignal | undefined;
}

/** A change of a pool. Events arrive in order and at least once. */
export interface PoolEvent {
  /** Position after this event, for `after`. */
  readonly cursor: string;
  /** What changed. GAP: events before this one are missing. */
  readonly kind: PoolEventKind;
  /** The device and the task; empty on CONFIGURED and GAP. */
  readonly device: string;
  readonly task: string;
  /** Token of the lease; 0 without a lease. */
  readonly token: bigint;
  /** Number of dispatches of a queued task; 0 for others. */
  readonly attempt: number;
  /** How the task went, on COMPLETED and LATE. */
  readonly outcome: Outcome | undefined;
  /** When it happened, on the clock of the server. */
  readonly time: Date | undefined;
  /** Slots of the pool, on ADMITTED and CONFIGURED. */
  readonly capacity: number | undefined;
}

/** A notice about a key of a policy. */
export interface RateEvent {
  /** Position after this event, for `after`. */
  readonly cursor: string;
  /** What happened. GAP: events before this one are missing. */
  readonly kind: RateEventKind;
  /** The key; empty on GAP. */
  readonly key: string;
  /** When it happened, on the clock of the server. */
  readonly time: Date | undefined;
  /** The `above` of the reached tier. */
  readonly above: bigint | undefined;
  /** The count on the first limit. */
  readonly count: bigint;
  /** The ban, on BANNED. */
  readonly ban: Ban | undefined;
  /** Who lifted the ban, on UNBANNED. */
  readonly actor: string;
}

/** Follows the events of a pool. */
export function watchPool(
  caller: Caller,
  pool: string,
  options: WatchOptions,
): AsyncGenerator<PoolEvent, void, undefined> {
  const gap = { cursor: "", kind: "GAP", device: "", task: "", token: 0n, attempt: 0 } as const;
  return follow(caller, options, {
    gap: { ...gap, outcome: undefined, time: undefined, capacity: undefined },
    open: async function* (after, onOpen) {
      const request = { pool, after };
      const events = caller.stream(AdmissionService.method.watchPool, request, {
        signal: options.signal,
        onOpen,
      });
      for await (const { event } of events) if (event !== undefined) yield readPoolEvent(event);
    },
  });
}

/** Follows the events of a policy. */
export function watchRates(
  caller: Caller,
  policy: string,
  options: WatchOptions,
): AsyncGenerator<RateEvent, void, undefined> {
  const gap = { cursor: "", kind: "GAP", key: "", time: undefined, above: undefined } as const;
  return follow(caller, options, {
    gap: { ...gap, count: 0n, ban: undefined, actor: "" },
    open: async function* (after, onOpen) {
      const request = { policy, after };
      const events = caller.stream(RateService.method.watchRates, request, {
        signal: options.signal,
        onOpen,
      });
      for await (const { event } of events) if (event !== undefined) yield readRateEvent(event);
    },
  });
}

/** The streams of a watch. */
interface Source<E> {
  /** Opens a stream after a cursor. */
  readonly open: (after: string | undefined, onOpen: () => void) => AsyncGenerator<E, void, undefined>;
  /** Event that reports a gap. */
  readonly gap: E;
}

/**
 * Yields the events of a stream. Resumes a lost stream after its last event, with backoff. A stream
 * without a cursor cannot be resumed: the watch then yields a GAP.
 */
async function* follow<E extends { readonly cursor: string }>(
  caller: Caller,
  options: WatchOptions,
  source: Source<E>,
): AsyncGenerator<E, void, undefined> {
  const { signal } = options;
  const state = { opened: false, failures: 0 };
  const onOpen = (): void => {
    state.opened = true;
    state.failures = 0;
  };
  let { after } = options;
  while (!isAborted(signal)) {
    let error: TollgateError | undefined;
    try {
      for await (const event of source.open(after, onOpen)) {
        after = event.cursor;
        yield event;
      }
    } catch (thrown) {
      error = asTollgateError(thrown);
      if (!isAborted(signal) && !isInterruption(error.code)) throw error;
    }
    state.failures += 1;
    const pause = caller.sleep(caller.pauseMs(state.failures, error), signal);
    if (!(await isSlept(pause, signal))) return;
    if (state.opened && after === undefined) yield source.gap;
    state.opened = false;
  }
}

/** Waits for a pause. Returns false if the signal ended it. */
async function isSlept(pause: Promise<void>, signal: AbortSignal | undefined): Promise<boolean> {
  try {
    await pause;
    return true;
  } catch (error) {
    if (isAborted(signal)) return false;
    throw error;
  }
}

function isAborted(signal: AbortSignal | undefined): boolean {
  return signal?.aborted === true;
}

/** Whether a stream that ended with this code is resumed. A proxy may end it with INTERNAL. */
function isInterruption(code: string): boolean {
  return ["UNAVAILABLE", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED", "INTERNAL", "UNKNOWN"].includes(code);
}

function readPoolEvent(event: PoolEventMessage): PoolEvent {
  return {
    cursor: event.cursor,
    kind: nameOf(PoolEventKindNumber, event.kind),
    device: event.deviceId,
    task: event.taskId,
    token: event.fencingToken,
    attempt: event.attempt,
    outcome: event.outcome === OutcomeNumber.UNSPECIFIED ? undefined : nameOf(OutcomeNumber, event.outcome),
    time: date(event.eventTime),
    capacity: event.capacity,
  };
}

function readRateEvent(event: RateEventMessage): RateEvent {
  return {
    cursor: event.cursor,
    kind: nameOf(RateEventKindNumber, event.kind),
    key: event.key,
    time: date(event.eventTime),
    above: event.above,
    count: event.count,
    ban: event.ban === undefined ? undefined : readBan(event.ban),
    actor: event.actor,
  };
}

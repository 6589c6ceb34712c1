import type { MessageInitShape } from "@bufbuild/protobuf";
import { type Ban, readBan } from "./ban.js";
import type { Core } from "./connection.js";
import { onAbort } from "./core/abort.js";
import { duration, milliseconds, nameOf, type NameOf, optionalDuration } from "./core/convert.js";
import type { CheckLog } from "./core/checklog.js";
import { asTollgateError, TollgateError } from "./core/errors.js";
import { requestIdOf } from "./core/identity.js";
import type { CallOptions } from "./core/options.js";
import {
  Algorithm as AlgorithmNumber,
  type CheckRateRequestSchema,
  type CheckRateResponse,
  type LimitUsage as LimitUsageMessage,
  RateService,
  RateVerdict as RateVerdictNumber,
  type RuleSchema,
  TierAction as TierActionNumber,
} from "./gen/tollgate/v1/rate_pb.js";
import { type RateEvent, watchRates, type WatchOptions } from "./watch.js";

/** The answer to a check. */
export type RateVerdict = NameOf<typeof RateVerdictNumber>;
/** How a limit counts. */
export type Algorithm = NameOf<typeof AlgorithmNumber>;
/** Action of a tier. */
export type TierAction = NameOf<typeof TierActionNumber>;

/** A maximum number of calls in a window. */
export interface Limit {
  /** Name; may be absent if the rule has one limit. */
  readonly name?: string;
  /** Calls in a window, 0 to 1,000,000,000. */
  readonly max: bigint | number;
  /** Length of the window in milliseconds, 1 ms to 30 days. */
  readonly windowMs: number;
  /** Default: SLIDING_WINDOW. */
  readonly algorithm?: Algorithm;
  /** TOKEN_BUCKET only: calls that may pass at once. Default: `max`. */
  readonly burst?: bigint | number;
}

/** An action above a count of the first limit. */
export interface Tier {
  /** The tier applies from the first call beyond this count. */
  readonly above: bigint | number;
  readonly action: TierAction;
  /** BAN only: lengths of the first ban, of the second, and so on, in milliseconds. */
  readonly banMs?: readonly number[];
}

/** A rule in the call, in place of a policy of the configuration. */
export interface Rule {
  /** 1 to 8 limits, decided in one step. */
  readonly limits: readonly Limit[];
  /** 0 to 8 tiers on the first limit. */
  readonly tiers?: readonly Tier[];
  /** Offset of calendar windows from UTC in milliseconds. Default: 0. */
  readonly utcOffsetMs?: number;
  /** Time in which the next ban counts as a further strike, in milliseconds. Default: 24 h. */
  readonly banMemoryMs?: number;
}

/** Usage of a limit. */
export interface LimitUsage {
  readonly name: string;
  readonly max: bigint;
  readonly count: bigint;
  readonly remaining: bigint;
  /** Time until all usage is given back, in milliseconds; 0 without usage. */
  readonly resetAfterMs: number;
  /** Length of the window in milliseconds. */
  readonly windowMs: number;
  /** Whether this limit refused the call. */
  readonly refused: boolean;
}

/** A key under a policy. */
export interface KeyStatus {
  /** Usage of the limits; none of them has refused. */
  readonly limits: readonly LimitUsage[];
  readonly ban: Ban | undefined;
  /** Number of bans of the key, each within the ban memory of the one before. */
  readonly strikes: number;
}

/** Whether a call may pass. */
export interface RateAnswer {
  readonly allowed: boolean;
  /** The verdict; undefined if `onFailure` decided without the server. */
  readonly verdict: RateVerdict | undefined;
  readonly limits: readonly LimitUsage[];
  /** True on exactly one call per tier and window: send a notice now. */
  readonly crossed: boolean;
  /** On a refusal: time until the same call passes, in milliseconds. */
  readonly retryAfterMs: number | undefined;
  readonly ban: Ban | undefined;
  readonly replayed: boolean;
  /** True for an answer from the denial cache of the server. */
  readonly cached: boolean;
  /** True if the store, or the server, was unreachable and a fallback decided. */
  readonly degraded: boolean;
}

/** Options of a check. */
export interface CheckOptions extends CallOptions {
  /** Cost of the call, 0 to 1,000,000,000; 0 only peeks. Default: 1. */
  readonly cost?: bigint | number | undefined;
  /** Identifies the call: a repeat within 5 minutes spends nothing. Default, or empty: random. */
  readonly requestId?: string | undefined;
}

/** A check of several. */
export interface Check extends Omit<CheckOptions, keyof CallOptions> {
  readonly key: string;
  /** Name of a policy, or a rule. */
  readonly against: string | Rule;
}

/**
 * What a limiter does if the server cannot decide: `open` lets the call pass, `closed` refuses it,
 * `error` throws the error.
 */
export type OnFailure = "open" | "closed" | "error";

/** Time after which a call that `closed` refused may try again, in milliseconds. */
const CLOSED_RETRY_MS = 1000;

/** Rates: decides whether a key is within its limits. */
export class Rates {
  readonly #core: Core;

  /** @internal */
  constructor(core: Core) {
    this.#core = core;
  }

  /**
   * Counts a call of a key and decides whether it may pass.
   * @param against name of a policy, or a rule
   */
  async check(key: string, against: string | Rule, options: CheckOptions = {}): Promise<RateAnswer> {
    const request = checkRequest({ ...options, key, against });
    const { message } = await this.#core.caller.call(RateService.method.checkRate, request, options);
    return readAnswer(message);
  }

  /**
   * Decides 1 to 100 checks in one round trip, independently and in order. A check that could not be
   * decided has an `error`.
   */
  async checkMany(
    checks: readonly Check[],
    options: CallOptions = {},
  ): Promise<(RateAnswer | { readonly error: string })[]> {
    const request = { checks: checks.map(checkRequest) };
    const { message } = await this.#core.caller.call(RateService.method.checkRates, request, options);
    return message.results.map((result) =>
      result.error === "" ? readAnswer(result) : { error: result.error },
    );
  }

  /** Makes a limiter: checks against one policy or rule, with a decision for failures. */
  limiter(against: string | Rule, options: { readonly onFailure?: OnFailure } = {}): Limiter {
    const { deadlineMs } = this.#core.caller.settings;
    return new Limiter(this, against, options.onFailure ?? "error", deadlineMs, this.#core.checks);
  }

  /** Clears the usage of a key; a ban stays. Returns whether the key had usage. */
  async reset(key: string, policy = "", options: CallOptions = {}): Promise<boolean> {
    const { message } = await this.#core.caller.call(RateService.method.resetRate, { key, policy }, options);
    return message.existed;
  }

  /**
   * Bans a key.
   * @param durationMs length of the ban in milliseconds, 1 ms to 30 days
   */
  async ban(
    key: string,
    durationMs: number,
    options: CallOptions & { readonly policy?: string; readonly reason?: string } = {},
  ): Promise<Ban | undefined> {
    const { policy = "", reason = "" } = options;
    const request = { key, policy, reason, duration: duration(durationMs) };
    const { message } = await this.#core.caller.call(RateService.method.ban, request, options);
    return message.ban === undefined ? undefined : readBan(message.ban);
  }

  /** Lifts the ban of a key. Returns whether the key was banned. */
  async unban(key: string, policy = "", options: CallOptions = {}): Promise<boolean> {
    const { message } = await this.#core.caller.call(RateService.method.unban, { key, policy }, options);
    return message.existed;
  }

  /** Returns the usage, the ban and the strikes of a key of a policy. Counts no call. */
  async key(key: string, policy: string, options: CallOptions = {}): Promise<KeyStatus> {
    const { message } = await this.#core.caller.call(RateService.method.getKey, { key, policy }, options);
    const ban = message.ban === undefined ? undefined : readBan(message.ban);
    return { limits: message.limits.map(readUsage), ban, strikes: message.strikes };
  }

  /** Lists the running bans of a policy, the earliest end first. */
  async *bans(policy = "", options: CallOptions = {}): AsyncGenerator<Ban, void, undefined> {
    let pageToken = "";
    do {
      const request = { policy, pageSize: 1000, pageToken };
      const { message } = await this.#core.caller.call(RateService.method.listBans, request, options);
      for (const ban of message.bans) yield readBan(ban);
      pageToken = message.nextPageToken;
    } while (pageToken !== "");
  }

  /** Returns the names of the configured policies. */
  async policies(options: CallOptions = {}): Promise<string[]> {
    const { message } = await this.#core.caller.call(RateService.method.listPolicies, {}, options);
    return message.policies.map(({ name }) => name);
  }

  /** Follows the notices and bans of a policy. Ends with `signal` or when the loop is left. */
  watch(policy: string, options: WatchOptions = {}): AsyncGenerator<RateEvent, void, undefined> {
    return watchRates(this.#core.caller, policy, options);
  }
}

/** Checks against one policy or rule. */
export class Limiter {
  readonly #rates: Rates;
  readonly #against: string | Rule;
  readonly #deadlineMs: number;
  readonly #checks: CheckLog;
  /** What happens if the server cannot decide. */
  readonly onFailure: OnFailure;

  /** @internal */
  constructor(
    rates: Rates,
    against: string | Rule,
    onFailure: OnFailure,
    deadlineMs: number,
    checks: CheckLog,
  ) {
    this.#rates = rates;
    this.#checks = checks;
    this.#against = against;
    this.onFailure = onFailure;
    this.#deadlineMs = deadlineMs;
  }

  /**
   * Decides whether a call of a key may pass. `onFailure` decides on errors that a repeat may fix,
   * and after one deadline, including the time in the queue, and logs that. `open` also decides
   * after a configuration mistake, such as an unknown policy, which is otherwise thrown. A bad key
   * is always thrown.
   */
  async check(key: string, options: CheckOptions = {}): Promise<RateAnswer> {
    if (this.onFailure === "error") return this.#rates.check(key, this.#against, options);
    const { signal } = options;
    const late = new AbortController();
    const timer = setTimeout(() => {
      late.abort();
    }, options.deadlineMs ?? this.#deadlineMs);
    const release = onAbort(signal, () => {
      late.abort(signal?.reason);
    });
    try {
      return await this.#rates.check(key, this.#against, { ...options, signal: late.signal });
    } catch (thrown) {
      const error = late.signal.aborted ? tooLate() : asTollgateError(thrown);
      if (signal?.aborted === true) throw asTollgateError(thrown);
      const open = this.onFailure === "open";
      if (!(open ? error.code !== "INVALID_ARGUMENT" : isOutage(error.code))) throw error;
      this.log(`the call ${open ? "passes (fail open)" : "is refused (fail closed)"}`, error);
      return fallback(open);
    } finally {
      clearTimeout(timer);
      release();
    }
  }

  /**
   * Logs that a check was not decided, at most once in 10 s. For middlewares.
   * @internal
   */
  log(effect: string, thrown: unknown): void {
    const policy = typeof this.#against === "string" ? this.#against : "a rule";
    this.#checks.undecided(policy, effect, asTollgateError(thrown));
  }
}

/** The error of a check that had no answer within one deadline. */
function tooLate(): TollgateError {
  return new TollgateError({ code: "DEADLINE_EXCEEDED", message: "No answer within the deadline." });
}

/** Whether an error says that the server could not decide, and not that the request is wrong. */
function isOutage(code: string): boolean {
  return ["UNAVAILABLE", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED", "INTERNAL", "UNKNOWN"].includes(code);
}

function fallback(allowed: boolean): RateAnswer {
  return {
    allowed,
    verdict: undefined,
    limits: [],
    crossed: false,
    retryAfterMs: allowed ? undefined : CLOSED_RETRY_MS,
    ban: undefined,
    replayed: false,
    cached: false,
    degraded: true,
  };
}

function checkRequest(check: Check): MessageInitShape<typeof CheckRateRequestSchema> {
  const { key, against, cost, requestId } = check;
  return {
    key,
    cost: cost === undefined ? undefined : BigInt(cost),
    requestId: requestIdOf(requestId),
    against:
      typeof against === "string"
        ? { case: "policy", value: against }
        : { case: "rule", value: ruleMessage(against) },
  };
}

function ruleMessage(rule: Rule): MessageInitShape<typeof RuleSchema> {
  return {
    limits: rule.limits.map(({ name = "", max, windowMs, algorithm, burst }) => ({
      name,
      max: BigInt(max),
      window: duration(windowMs),
      algorithm: algorithm === undefined ? AlgorithmNumber.UNSPECIFIED : AlgorithmNumber[algorithm],
      burst: burst === undefined ? undefined : BigInt(burst),
    })),
    tiers: (rule.tiers ?? []).map(({ above, action, banMs = [] }) => ({
      above: BigInt(above),
      action: TierActionNumber[action],
      banDurations: banMs.map(duration),
    })),
    utcOffset: optionalDuration(rule.utcOffsetMs),
    banMemory: optionalDuration(rule.banMemoryMs),
  };
}

function readUsage(usage: LimitUsageMessage): LimitUsage {
  const { name, max, count, remaining, resetAfter, window, refused } = usage;
  const times = { resetAfterMs: milliseconds(resetAfter), windowMs: milliseconds(window) };
  return { name, max, count, remaining, refused, ...times };
}

function readAnswer(message: CheckRateResponse): RateAnswer {
  return {
    allowed: message.allowed,
    verdict: nameOf(RateVerdictNumber, message.verdict),
    limits: message.limits.map(readUsage),
    crossed: message.crossed,
    retryAfterMs: message.retryAfter === undefined ? undefined : milliseconds(message.retryAfter),
    ban: message.ban === undefined ? undefined : readBan(message.ban),
    replayed: message.replayed,
    cached: message.cached,
    degraded: message.degraded,
  };
}

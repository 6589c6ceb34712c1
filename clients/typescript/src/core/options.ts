import type { RetryBudgetOptions } from "./budget.js";
import type { Clock } from "./clock.js";

/** Certificates and keys of a TLS connection, each as PEM. */
export interface TlsOptions {
  /** Authorities that sign the certificates of the servers. Default: those of Node.js. */
  readonly ca?: string | Buffer;
  /** Certificate of the client; needs `key`. */
  readonly cert?: string | Buffer;
  /** Private key of the client; needs `cert`. */
  readonly key?: string | Buffer;
  /** Name that the certificate of the server must have. Default: the host of the address. */
  readonly serverName?: string;
}

/** When and how often a failed call is repeated. */
export interface RetryOptions {
  /** Maximum number of attempts of a call, at least 1. Default: 5. */
  readonly attempts?: number;
  /**
   * Upper bound of the first pause, in milliseconds; it doubles with each retry. The pause is
   * random below the bound. Default: 100.
   */
  readonly firstPauseMs?: number;
  /** Highest upper bound of a pause, in milliseconds. Default: 2,000. */
  readonly longestPauseMs?: number;
  /**
   * A call whose RetryInfo is longer than this fails immediately, in milliseconds; the error has
   * `retryAfterMs`. Default: 5,000.
   */
  readonly longestRetryAfterMs?: number;
}

/** Options of a connection. */
export interface ConnectOptions {
  /** TLS. `true` uses the authorities of Node.js. Default: plain text. */
  readonly tls?: TlsOptions | true;
  /**
   * Token of the caller in printable ASCII, or a function that each attempt of a call asks for it,
   * within its deadline.
   */
  readonly token?: string | (() => string | Promise<string>);
  /** File with the token of the caller. It is read again when it changes. Excludes `token`. */
  readonly tokenFile?: string;
  /** Namespace of the names in calls, in printable ASCII. Default: that of the caller. */
  readonly namespace?: string;
  /** Deadline of each attempt of a call, above 0, in milliseconds. Default: 1,000. */
  readonly deadlineMs?: number;
  /** When and how often a failed call is repeated. */
  readonly retry?: RetryOptions;
  /** Limit on the retries of the connection. */
  readonly retryBudget?: RetryBudgetOptions;
  /**
   * Receives a line, at most one in 10 s for each policy, when a rate could not be checked: because
   * `onFailure` decided, or a middleware answered with an error. Default: `console.warn`.
   */
  readonly log?: (line: string) => void;
  /** The monotonic clock of leases. For tests. */
  readonly clock?: Clock;
}

/** Options that every call accepts. */
export interface CallOptions {
  /** Cancels the call, which then fails with CANCELLED. */
  readonly signal?: AbortSignal | undefined;
  /** Deadline of each attempt in milliseconds. Default: that of the connection. */
  readonly deadlineMs?: number | undefined;
}

/** The options of a connection with their defaults. */
export interface Settings {
  readonly deadlineMs: number;
  readonly retry: Required<RetryOptions>;
}

/** Adds the defaults and checks the ranges. */
export function settings(options: ConnectOptions): Settings {
  const retry = {
    attempts: options.retry?.attempts ?? 5,
    firstPauseMs: options.retry?.firstPauseMs ?? 100,
    longestPauseMs: options.retry?.longestPauseMs ?? 2000,
    longestRetryAfterMs: options.retry?.longestRetryAfterMs ?? 5000,
  };
  const deadlineMs = options.deadlineMs ?? 1000;
  const lowest = { "retry.attempts": retry.attempts, deadlineMs };
  for (const [name, value] of Object.entries(lowest)) {
    if (!(value >= 1)) throw new RangeError(`${name} is ${String(value)}; expected 1 or more`);
  }
  if (options.token !== undefined && options.tokenFile !== undefined) {
    throw new TypeError("token and tokenFile are both set; set one of them");
  }
  return { deadlineMs, retry };
}

import type { TollgateError } from "./errors.js";

/** Time between two lines about the same policy and effect, in milliseconds. */
const PERIOD_MS = 10_000;
/** Number of kinds of lines; all further kinds share one limit. */
const KINDS_MAX = 100;

/** Logs checks that were not decided: at most one line in 10 s for each policy and effect. */
export class CheckLog {
  readonly #log: (line: string) => void;
  readonly #kinds = new Map<string, { next: number; suppressed: number }>();

  constructor(log: (line: string) => void) {
    this.#log = log;
  }

  /** Logs a check of a policy, and what happens to its call. */
  undecided(policy: string, effect: string, error: TollgateError): void {
    let kind = JSON.stringify([policy, effect]);
    if (this.#kinds.size >= KINDS_MAX && !this.#kinds.has(kind)) kind = "";
    const pace = this.#kinds.get(kind) ?? { next: 0, suppressed: 0 };
    this.#kinds.set(kind, pace);
    if (performance.now() < pace.next) {
      pace.suppressed += 1;
      return;
    }
    const reason = error.reason === "" ? error.code : `${error.code} (${error.reason})`;
    this.#log(
      `tollgate: rate of policy ${quoted(policy)} not checked, ${effect}: ${reason} ${quoted(error.message)}` +
        ` (${String(pace.suppressed)} such checks not logged)`,
    );
    pace.next = performance.now() + PERIOD_MS;
    pace.suppressed = 0;
  }
}

/** A text between quotes, with characters escaped that are not printable ASCII. */
function quoted(text: string): string {
  const hex = (char: string): string => `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`;
  return `"${text.replace(/["\\]/gu, "\\$&").replace(/[^ -~]/gu, hex)}"`;
}

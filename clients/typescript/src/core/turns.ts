import { onAbort } from "./abort.js";

/**
 * Maximum number of calls that a connection sends at a time. A server accepts 256 calls of a
 * connection by default; gRPC would queue further ones while their deadlines run.
 */
const CALLS = 200;

/** Methods that keep or end a lease, whose calls do not wait behind others. */
const EXEMPT: ReadonlySet<string> = new Set([
  "RenewTask",
  "RenewTasks",
  "RenewLock",
  "CompleteTask",
  "CompleteTasks",
  "ReleaseLock",
]);

/** The turns of calls: further calls wait, in order, until an earlier one has ended. */
export class Turns {
  #free = CALLS;
  readonly #waiting = new Set<() => void>();

  /** Waits for a turn, or until the signal is aborted. Returns a function that ends the turn. */
  async take(method: string, signal?: AbortSignal): Promise<() => void> {
    if (EXEMPT.has(method)) return () => undefined;
    if (this.#free > 0) this.#free -= 1;
    else if (!(await this.#next(signal))) return () => undefined;
    return () => {
      const [next] = this.#waiting;
      if (next === undefined) this.#free += 1;
      else next();
    };
  }

  /** Waits until a call passes on its turn. Returns false if the signal is aborted before. */
  async #next(signal: AbortSignal | undefined): Promise<boolean> {
    let release = (): void => undefined;
    const passed = await new Promise<boolean>((resolve) => {
      const go = (): void => {
        this.#waiting.delete(go);
        resolve(true);
      };
      this.#waiting.add(go);
      release = onAbort(signal, () => {
        if (this.#waiting.delete(go)) resolve(false);
      });
    });
    release();
    return passed;
  }
}

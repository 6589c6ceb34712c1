import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import { type Permit, type Pool, TollgateError } from "../../src/index.js";

/** Returns the error of a call; fails if it succeeds. */
export async function failure(call: Promise<unknown>): Promise<TollgateError> {
  const error: unknown = await call.then(
    () => assert.fail("the call succeeded"),
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof TollgateError, String(error));
  return error;
}

/** Waits for a condition. */
export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await condition())) await pause(10);
}

/** Admits a task; fails if it is refused. */
export async function permitOf(pool: Pool, device: string, task = "t", keeper = true): Promise<Permit> {
  const admission = await pool.admit(device, task, { keeper });
  assert.equal(admission.outcome, "ADMITTED");
  return admission.permit;
}

/** Collects up to `count` elements. */
export async function take<T>(count: number, elements: AsyncIterable<T>): Promise<T[]> {
  const taken: T[] = [];
  for await (const element of elements) {
    taken.push(element);
    if (taken.length >= count) break;
  }
  return taken;
}

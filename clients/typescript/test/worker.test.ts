import assert from "node:assert/strict";
import { test } from "node:test";
import { status } from "@grpc/grpc-js";
import { AdmissionService } from "../src/gen/tollgate/v1/admission_pb.js";
import { type CompleteVerdict, Tollgate } from "../src/index.js";
import { until } from "./support/check.js";
import { onBothEngines } from "./support/engines.js";
import { Failure, FaultServer } from "./support/fault.js";

onBothEngines({
  "a worker runs the queued tasks in order, and failed ones again": async ({ tollgate, name }) => {
    const pool = tollgate.pool(name);
    await pool.configure({ maxAttempts: 2 });
    await pool.enqueue(["t1", "bad", "t2"].map((task) => ({ device: "d", task, payload: task })));
    const ran: string[] = [];
    const verdicts: CompleteVerdict[] = [];
    const errors: unknown[] = [];
    await using worker = pool.worker(
      "d",
      (permit) => {
        ran.push(`${permit.task}/${String(permit.attempt)}`);
        if (permit.task === "bad") throw new Error("broken");
        return permit.payload;
      },
      {
        idleMs: 20,
        onDone: (_, verdict) => verdicts.push(verdict),
        onError: (error) => errors.push(error),
      },
    );
    worker.start();
    await until(() => worker.done === 4);
    assert.deepEqual(ran, ["t1/1", "bad/1", "bad/2", "t2/1"]);
    assert.deepEqual(new Set(verdicts), new Set(["COMPLETED"]));
    assert.deepEqual(errors.map(String), ["Error: broken", "Error: broken"]);
    assert.equal((await pool.status()).queued, 0n);
  },

  "a worker that stops completes its running task, and takes no other": async ({ tollgate, name }) => {
    const pool = tollgate.pool(name);
    await pool.enqueue(["t1", "t2"].map((task) => ({ device: "d", task })));
    let finish = (): void => undefined;
    const worker = pool.worker("d", () => new Promise<void>((resolve) => (finish = resolve)));
    worker.start();
    await until(async () => (await pool.status()).inUse === 1);
    const stopped = worker.stop();
    finish();
    await stopped;
    assert.equal(worker.done, 1);
    const { inUse, queued } = await pool.status();
    assert.deepEqual([inUse, queued], [0, 1n]);
  },

  "a handler learns that its lease is lost": async ({ tollgate, name }) => {
    const pool = tollgate.pool(name);
    await pool.configure({ leaseMs: 600, maxAttempts: 1 });
    await pool.enqueue([{ device: "d", task: "t" }]);
    const verdicts: CompleteVerdict[] = [];
    const worker = pool.worker(
      "d",
      async (_, signal) => {
        await pool.evict("d", "t");
        await new Promise((resolve) => {
          signal.addEventListener("abort", resolve);
        });
      },
      { onDone: (_, verdict) => verdicts.push(verdict) },
    );
    worker.start();
    await until(() => worker.done === 1);
    await worker.stop();
    assert.deepEqual(verdicts, ["LATE"]);
  },
});

test("a worker survives an outage, and ends with an error that no repeat changes", async () => {
  await using server = new FaultServer();
  const calls = server.on(AdmissionService.method.admitTask, (number) =>
    number <= 8
      ? new Failure(status.UNAVAILABLE)
      : new Failure(status.PERMISSION_DENIED, { reason: "NAME_DENIED" }),
  );
  const retry = { attempts: 2, firstPauseMs: 1, longestPauseMs: 2 };
  await using tollgate = new Tollgate((await server.start()).address, { retry });
  const errors: unknown[] = [];
  const worker = tollgate.pool("p").worker("d", () => undefined, { onError: (error) => errors.push(error) });
  await assert.rejects(worker.start().finished(), { reason: "NAME_DENIED" });
  assert.equal(calls.length, 9);
  assert.ok(errors.length >= 5);
});

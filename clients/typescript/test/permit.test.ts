import assert from "node:assert/strict";
import { once } from "node:events";
import { syncBuiltinESMExports } from "node:module";
import os from "node:os";
import { mock, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { status } from "@grpc/grpc-js";
import { duration } from "../src/core/convert.js";
import {
  AdmissionService,
  AdmitDecision,
  CompleteVerdict,
  Outcome,
  RenewVerdict,
} from "../src/gen/tollgate/v1/admission_pb.js";
import { type ConnectOptions, type Permit, type Pool, Tollgate, TollgateError } from "../src/index.js";
import { SteppedClock } from "../src/testing.js";
import { Failure, FaultServer } from "./support/fault.js";

const { admitTask, completeTask, renewTask } = AdmissionService.method;
const QUICK: ConnectOptions = { retry: { firstPauseMs: 1, longestPauseMs: 2 } };

/** A server whose leases have this length, and that renews them. */
function leases(ms: number, onAdmit?: () => void): FaultServer {
  const server = new FaultServer();
  const lease = { fencingToken: 7n, taskId: "t", expiresIn: duration(ms) };
  server.on(admitTask, () => {
    onAdmit?.();
    return { decision: AdmitDecision.ADMITTED, lease };
  });
  return server;
}

async function permitOf(pool: Pool, options: { keeper?: boolean } = {}): Promise<Permit> {
  const admission = await pool.admit("d", "t", options);
  assert.equal(admission.outcome, "ADMITTED");
  return admission.permit;
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await pause(5);
}

test("a permit is lost by the clock, before its lease ends", async () => {
  const clock = new SteppedClock();
  let decidedAt = 0;
  await using server = leases(60_000, () => (decidedAt = clock.now()));
  await using tollgate = new Tollgate((await server.start()).address, { clock });
  await using permit = await permitOf(tollgate.pool("p"), { keeper: false });
  const readAt = clock.now();
  const rest = permit.validForMs;
  // The end of the lease at the server, less the margin.
  assert.ok(readAt + rest <= decidedAt + 59_000, `${String(rest)} ms`);
  const lost = once(permit.signal, "abort");
  clock.advance(rest / 2);
  assert.ok(permit.valid && !permit.lost);
  clock.advance(rest / 2);
  await lost;
  assert.deepEqual([permit.valid, permit.lost, permit.validForMs], [false, true, 0]);
  const reason: unknown = permit.signal.reason;
  assert.ok(reason instanceof TollgateError && reason.reason === "LEASE_LOST");
});

test("a use after a sleep compares the clock, without a timer", async () => {
  await using server = leases(60_000);
  let ahead = 0;
  const clock = { now: () => performance.now() + ahead };
  await using tollgate = new Tollgate((await server.start()).address, { clock });
  for (const use of [
    (permit: Permit) => !permit.valid,
    (permit: Permit) => permit.lost,
    (permit: Permit) => permit.signal.aborted,
  ]) {
    const permit = await permitOf(tollgate.pool("p"));
    assert.ok(!use(permit));
    ahead += 61_000;
    assert.ok(use(permit));
  }
});

test(
  "a lease that ends while the machine sleeps is lost",
  { skip: process.platform !== "linux" },
  async () => {
    await using server = leases(60_000);
    await using tollgate = new Tollgate((await server.start()).address);
    const permit = await permitOf(tollgate.pool("p"));
    const lost = once(permit.signal, "abort");
    const started = os.uptime() - performance.now() / 1000;
    const uptime = mock.method(os, "uptime", () => started + performance.now() / 1000 + 61);
    syncBuiltinESMExports();
    try {
      await lost;
    } finally {
      uptime.mock.restore();
      syncBuiltinESMExports();
    }
    assert.deepEqual([permit.valid, permit.lost], [false, true]);
  },
);

test("the keeper renews with the token and the length of the lease", async () => {
  await using server = leases(300);
  const lease = { fencingToken: 7n, expiresIn: duration(300) };
  const calls = server.on(renewTask, () => ({ verdict: RenewVerdict.RENEWED, lease }));
  await using tollgate = new Tollgate((await server.start()).address);
  const admission = await tollgate.pool("p").admit("d", "t", { leaseMs: 300 });
  assert.equal(admission.outcome, "ADMITTED");
  const { permit } = admission;
  await until(() => calls.length >= 5);
  assert.ok(permit.valid);
  permit.close();
  const count = calls.length;
  await pause(300);
  assert.ok(calls.length <= count + 1);
  for (const { request } of calls) {
    assert.deepEqual([request.fencingToken, request.leaseDuration?.nanos], [7n, 300_000_000]);
  }
});

test("the keeper stops at the first answer that is not RENEWED", async () => {
  for (const verdict of [RenewVerdict.EXPIRED, RenewVerdict.STALE_TOKEN, RenewVerdict.UNKNOWN]) {
    await using server = leases(600);
    const calls = server.on(renewTask, () => ({ verdict }));
    await using tollgate = new Tollgate((await server.start()).address);
    const permit = await permitOf(tollgate.pool("p"));
    await once(permit.signal, "abort");
    assert.equal(calls.length, 1);
    assert.ok(permit.lost);
  }
});

test("errors of renewals are retried until the lease ends", async () => {
  await using server = leases(600);
  const lease = { fencingToken: 7n, expiresIn: duration(600) };
  let broken = true;
  const calls = server.on(renewTask, () =>
    broken ? new Failure(status.INTERNAL) : { verdict: RenewVerdict.RENEWED, lease },
  );
  await using tollgate = new Tollgate((await server.start()).address, {
    ...QUICK,
    retryBudget: { ratio: 0, reserve: 0 },
  });
  const permit = await permitOf(tollgate.pool("p"));
  await until(() => calls.length >= 5);
  broken = false;
  const count = calls.length;
  await until(() => calls.length >= count + 2);
  assert.ok(permit.valid);
  broken = true;
  await once(permit.signal, "abort");
  assert.ok(permit.lost);
});

test("complete is retried until the verdict is known, also after the lease", async () => {
  await using server = leases(60_000);
  const calls = server.on(completeTask, (number) =>
    number <= 20 ? new Failure(status.UNAVAILABLE) : { verdict: CompleteVerdict.LATE },
  );
  const clock = new SteppedClock();
  await using tollgate = new Tollgate((await server.start()).address, { ...QUICK, clock });
  const permit = await permitOf(tollgate.pool("p"));
  clock.advance(61_000);
  assert.ok(permit.lost);
  assert.equal(await permit.complete({ result: "done" }), "LATE");
  assert.equal(calls.length, 21);
  assert.equal(Buffer.from(calls[0]?.request.result ?? []).toString(), "done");
  assert.equal(calls[0]?.request.fencingToken, 7n);
});

test("a completed permit is not lost, and a refused completion keeps the keeper", async () => {
  await using server = leases(300);
  const lease = { fencingToken: 7n, expiresIn: duration(300) };
  const renewals = server.on(renewTask, () => ({ verdict: RenewVerdict.RENEWED, lease }));
  server.on(completeTask, (number) =>
    number === 1
      ? new Failure(status.INVALID_ARGUMENT, { field: "result" })
      : { verdict: CompleteVerdict.COMPLETED },
  );
  await using tollgate = new Tollgate((await server.start()).address);
  const permit = await permitOf(tollgate.pool("p"));
  const { signal } = permit;
  await assert.rejects(permit.complete(), { code: "INVALID_ARGUMENT" });
  const count = renewals.length;
  await until(() => renewals.length >= count + 2);
  assert.equal(await permit.complete(), "COMPLETED");
  await pause(400);
  assert.deepEqual([permit.valid, permit.lost, signal.aborted], [false, false, false]);
});

test("a scope that ends with an error completes the task as FAILED", async () => {
  await using server = leases(60_000);
  const calls = server.on(completeTask, () => ({ verdict: CompleteVerdict.COMPLETED }));
  await using tollgate = new Tollgate((await server.start()).address);
  const failing = await permitOf(tollgate.pool("p"));
  await assert.rejects(
    failing.use(() => Promise.reject(new Error("broken"))),
    /broken/,
  );
  assert.deepEqual(
    calls.map(({ request }) => request.outcome),
    [Outcome.FAILED],
  );
  const leaving = await permitOf(tollgate.pool("p"));
  assert.equal(await leaving.use(() => 5), 5);
  {
    await using disposed = await permitOf(tollgate.pool("p"));
    assert.ok(disposed.valid);
  }
  assert.equal(calls.length, 1);
  assert.deepEqual([leaving.valid, leaving.lost], [false, false]);
});

test("j8: a permit is lost at the end of its lease, also while its result is reported", async () => {
  const clock = new SteppedClock();
  await using server = leases(60_000);
  const reports = server.on(completeTask, () => "SILENCE");
  const tollgate = new Tollgate((await server.start()).address, { clock });
  const permit = await permitOf(tollgate.pool("p"));
  const lost = once(permit.signal, "abort");
  const completing = assert.rejects(permit.complete(), { reason: "CONNECTION_CLOSED" });
  await until(() => reports.length > 0);
  assert.ok(permit.valid);
  clock.advance(permit.validForMs);
  await lost;
  assert.deepEqual([permit.valid, permit.lost, permit.validForMs], [false, true, 0]);
  tollgate.close();
  await completing;
});

test("j9: a scope ends with the error of its body, and the report continues", async () => {
  await using server = leases(60_000);
  const reports = server.on(completeTask, (number) =>
    number === 1 ? "SILENCE" : { verdict: CompleteVerdict.COMPLETED },
  );
  await using tollgate = new Tollgate((await server.start()).address, { ...QUICK, deadlineMs: 100 });
  const permit = await permitOf(tollgate.pool("p"));
  const failure = new Error("the body failed");
  await assert.rejects(
    permit.use(() => {
      throw failure;
    }),
    failure,
  );
  assert.ok(!permit.valid);
  await until(() => reports.length > 1);
  assert.equal(reports[1]?.request.outcome, Outcome.FAILED);
});

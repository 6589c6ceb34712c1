import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { status } from "@grpc/grpc-js";
import { AdmissionService, AdmitDecision, CompleteVerdict } from "../src/gen/tollgate/v1/admission_pb.js";
import { RateService } from "../src/gen/tollgate/v1/rate_pb.js";
import { SequenceService } from "../src/gen/tollgate/v1/sequence_pb.js";
import { StockService } from "../src/gen/tollgate/v1/stock_pb.js";
import { type ConnectOptions, Tollgate, TollgateError } from "../src/index.js";
import { until } from "./support/check.js";
import { Failure, FaultServer, type Reply } from "./support/fault.js";

const QUICK: ConnectOptions = { retry: { firstPauseMs: 1, longestPauseMs: 2 } };

/** A value of an enum that this version does not know. */
const NEWER = JSON.parse("99") as never;

/** Answers `first` to the first `count` calls, then `rest`. */
function firstly<T>(count: number, first: T, rest: T): (number: number) => T {
  return (number) => (number <= count ? first : rest);
}

async function failure(call: Promise<unknown>): Promise<TollgateError> {
  const error: unknown = await call.then(
    () => assert.fail("the call succeeded"),
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof TollgateError);
  return error;
}

test("UNAVAILABLE is retried with the same request id", async () => {
  await using server = new FaultServer();
  const unavailable = new Failure(status.UNAVAILABLE);
  const next = server.on(
    SequenceService.method.nextSequence,
    firstly<Reply<typeof SequenceService.method.nextSequence.output>>(2, unavailable, {
      first: 2n ** 62n,
      last: 2n ** 62n,
    }),
  );
  const add = server.on(
    StockService.method.addStock,
    firstly<Reply<typeof StockService.method.addStock.output>>(1, unavailable, {}),
  );
  const check = server.on(
    RateService.method.checkRate,
    firstly<Reply<typeof RateService.method.checkRate.output>>(1, unavailable, { allowed: true }),
  );
  await using tollgate = new Tollgate((await server.start()).address, QUICK);
  assert.equal((await tollgate.sequences.next("order")).first, 2n ** 62n);
  await tollgate.stock.add("sku", 1n);
  await tollgate.rates.check("key", "policy");
  for (const [calls, count] of [
    [next, 3],
    [add, 2],
    [check, 2],
  ] as const) {
    assert.equal(calls.length, count);
    const ids = new Set(calls.map(({ request }) => request.requestId));
    assert.equal(ids.size, 1);
    assert.ok(!ids.has(""));
  }
});

test("an empty request id is replaced, so that retries count once", async () => {
  await using server = new FaultServer();
  const unavailable = new Failure(status.UNAVAILABLE);
  const { nextSequence } = SequenceService.method;
  const next = server.on(nextSequence, firstly<Reply<typeof nextSequence.output>>(1, unavailable, {}));
  const { addStock } = StockService.method;
  const add = server.on(addStock, firstly<Reply<typeof addStock.output>>(1, unavailable, {}));
  const { checkRate, checkRates } = RateService.method;
  const check = server.on(checkRate, firstly<Reply<typeof checkRate.output>>(1, unavailable, {}));
  const many = server.on(checkRates, firstly<Reply<typeof checkRates.output>>(1, unavailable, {}));
  await using tollgate = new Tollgate((await server.start()).address, QUICK);
  await tollgate.sequences.next("order", { requestId: "" });
  await tollgate.stock.add("sku", 1n, { requestId: "" });
  await tollgate.rates.check("key", "policy", { requestId: "" });
  await tollgate.rates.checkMany([{ key: "key", against: "policy", requestId: "" }]);
  const checks = many.flatMap(({ request }) => request.checks.map((request) => ({ request })));
  for (const calls of [next, add, check, checks]) {
    const ids = calls.map(({ request }) => request.requestId);
    assert.equal(ids.length, 2);
    assert.ok(ids[0] !== "" && ids[0] === ids[1], String(ids));
  }
});

test("SetStock is never retried", async () => {
  await using server = new FaultServer();
  const calls = server.on(
    StockService.method.setStock,
    () => new Failure(status.UNAVAILABLE, { retryAfterMs: 1 }),
  );
  await using tollgate = new Tollgate((await server.start()).address, QUICK);
  assert.equal((await failure(tollgate.stock.set("sku", 1n))).code, "UNAVAILABLE");
  assert.equal(calls.length, 1);
});

test("RESOURCE_EXHAUSTED is retried only with RetryInfo", async () => {
  await using server = new FaultServer();
  const details = [{ reason: "MESSAGE_TOO_LARGE" }, { reason: "OVERLOADED", retryAfterMs: 1 }];
  const calls = server.on(AdmissionService.method.getPool, (number) =>
    number > 2 ? {} : new Failure(status.RESOURCE_EXHAUSTED, details[number - 1]),
  );
  await using tollgate = new Tollgate((await server.start()).address, QUICK);
  const error = await failure(tollgate.pool("p").status());
  assert.deepEqual(
    [error.code, error.reason, error.retryable],
    ["RESOURCE_EXHAUSTED", "MESSAGE_TOO_LARGE", false],
  );
  await tollgate.pool("p").status();
  assert.equal(calls.length, 3);
});

test("a RetryInfo that is longer than the limit fails the call at once", async () => {
  await using server = new FaultServer();
  const calls = server.on(
    AdmissionService.method.getPool,
    () => new Failure(status.UNAVAILABLE, { retryAfterMs: 60_000 }),
  );
  await using tollgate = new Tollgate((await server.start()).address, QUICK);
  assert.equal((await failure(tollgate.pool("p").status())).retryAfterMs, 60_000);
  assert.equal(calls.length, 1);
});

test("a call without an answer is repeated after its deadline", async () => {
  await using server = new FaultServer();
  const calls = server.on(
    AdmissionService.method.getPool,
    firstly<Reply<typeof AdmissionService.method.getPool.output>>(1, "SILENCE", { pool: { pool: "p" } }),
  );
  await using tollgate = new Tollgate((await server.start()).address, { ...QUICK, deadlineMs: 100 });
  assert.equal((await tollgate.pool("p").status()).pool, "p");
  assert.equal(calls.length, 2);
});

test("retries end with the attempts, and with the budget", async () => {
  await using server = new FaultServer();
  const calls = server.on(AdmissionService.method.getPool, () => new Failure(status.UNAVAILABLE));
  const { address } = await server.start();
  await using tollgate = new Tollgate(address, {
    ...QUICK,
    retry: { ...QUICK.retry, attempts: 3 },
    retryBudget: { ratio: 0, reserve: 3 },
  });
  for (const total of [3, 5, 6]) {
    assert.equal((await failure(tollgate.pool("p").status())).code, "UNAVAILABLE");
    assert.equal(calls.length, total);
  }
});

test("a bad request is not retried, and names its fields", async () => {
  await using server = new FaultServer();
  const calls = server.on(
    AdmissionService.method.getPool,
    () => new Failure(status.INVALID_ARGUMENT, { field: "pool" }),
  );
  await using tollgate = new Tollgate((await server.start()).address, QUICK);
  const error = await failure(tollgate.pool("").status());
  assert.deepEqual(error.violations, [{ field: "pool", description: "is required" }]);
  assert.equal(calls.length, 1);
});

test("a signal cancels a call and its retries", async () => {
  await using server = new FaultServer();
  const stop = new AbortController();
  server.on(AdmissionService.method.getPool, () => {
    stop.abort();
    return "SILENCE";
  });
  await using tollgate = new Tollgate((await server.start()).address, QUICK);
  assert.equal((await failure(tollgate.pool("p").status({ signal: stop.signal }))).code, "CANCELLED");
  assert.equal((await failure(tollgate.pool("p").status({ signal: stop.signal }))).code, "CANCELLED");
});

test("closing a connection cancels its calls", async () => {
  await using server = new FaultServer();
  await using tollgate = new Tollgate((await server.start()).address, {
    retry: { firstPauseMs: 60_000, longestPauseMs: 60_000 },
  });
  server.on(AdmissionService.method.getPool, () => {
    setImmediate(() => {
      tollgate.close();
    });
    return "SILENCE";
  });
  assert.equal((await failure(tollgate.pool("p").status())).reason, "CONNECTION_CLOSED");
  assert.equal((await failure(tollgate.pool("p").status())).reason, "CONNECTION_CLOSED");
});

test("a token that is never returned ends with the deadline", async () => {
  const options = { token: () => new Promise<string>(() => undefined), deadlineMs: 50 };
  await using tollgate = new Tollgate("localhost:1", { ...QUICK, ...options });
  const error = await failure(tollgate.pool("p").status());
  assert.deepEqual([error.code, error.reason], ["DEADLINE_EXCEEDED", "TOKEN_LATE"]);
  const watch = tollgate.pool("p").watch({ signal: AbortSignal.timeout(200) });
  assert.deepEqual((await watch.next()).done, true);
});

test("a limiter decides after its deadline, also without a turn", async () => {
  await using server = new FaultServer();
  const calls = server.on(RateService.method.checkRate, () => "SILENCE");
  await using tollgate = new Tollgate((await server.start()).address, QUICK);
  const occupied = Array.from({ length: 200 }, () =>
    failure(tollgate.rates.check("key", "policy", { deadlineMs: 60_000 })),
  );
  await until(() => calls.length === 200);
  for (const onFailure of ["open", "closed"] as const) {
    const limiter = tollgate.rates.limiter("policy", { onFailure });
    const answer = await limiter.check("key", { deadlineMs: 50 });
    assert.deepEqual([answer.allowed, answer.degraded], [onFailure === "open", true]);
    const signal = AbortSignal.abort();
    assert.equal((await failure(limiter.check("key", { signal }))).code, "CANCELLED");
  }
  assert.equal(calls.length, 200);
  tollgate.close();
  await Promise.all(occupied);
});

test("calls have the token and the namespace", async () => {
  await using server = new FaultServer();
  const calls = server.on(AdmissionService.method.getPool, () => ({}));
  const { address } = await server.start();
  const folder = mkdtempSync(join(tmpdir(), "tollgate-token-"));
  const tokenFile = join(folder, "token");
  writeFileSync(tokenFile, "first\n");
  let callbacks = 0;
  await using value = new Tollgate(address, { token: "value", namespace: "acme" });
  await using callback = new Tollgate(address, {
    token: () => Promise.resolve(`callback-${String((callbacks += 1))}`),
  });
  await using file = new Tollgate(address, { tokenFile });
  for (const tollgate of [value, callback, callback, file]) await tollgate.pool("p").status();
  writeFileSync(tokenFile, "second");
  await file.pool("p").status();
  const tokens = ["value", "callback-1", "callback-2", "first", "second"].map((token) => `Bearer ${token}`);
  assert.deepEqual(
    calls.map(({ metadata }) => metadata.get("authorization")[0]),
    tokens,
  );
  assert.deepEqual(
    calls.map(({ metadata }) => metadata.get("x-tollgate-namespace")[0]),
    ["acme", ...Array<undefined>(4)],
  );
  rmSync(folder, { recursive: true });
  assert.equal((await failure(file.pool("p").status())).reason, "TOKEN_UNAVAILABLE");
});

test("further calls wait unless they keep or end a lease", async () => {
  await using server = new FaultServer();
  let answer = (): void => undefined;
  const answered = new Promise<void>((resolve) => {
    answer = resolve;
  });
  const calls = server.on(AdmissionService.method.getPool, async () => {
    await answered;
    return {};
  });
  const completed = server.on(AdmissionService.method.completeTask, () => ({
    verdict: CompleteVerdict.COMPLETED,
  }));
  const { address } = await server.start();
  await using tollgate = new Tollgate(address, { deadlineMs: 30_000 });
  const pool = tollgate.pool("p");
  const stop = new AbortController();
  const cancelled = failure(
    Promise.all(Array.from({ length: 450 }, () => pool.status({ signal: stop.signal }))),
  );
  const first = Array.from({ length: 10 }, () => pool.status());
  while (calls.length < 200) await new Promise((resolve) => setTimeout(resolve, 5));
  assert.equal(await pool.complete("d", "t"), "COMPLETED");
  await pool.renew("d", "t").catch(() => undefined);
  assert.deepEqual([calls.length, completed.length], [200, 1]);
  stop.abort();
  assert.equal((await cancelled).code, "CANCELLED");
  answer();
  await Promise.all(first);
  assert.equal(calls.length, 210);
});

test("an answer that this version does not know is an error", async () => {
  await using server = new FaultServer();
  server.on(AdmissionService.method.admitTask, () => ({ decision: AdmitDecision.ADMITTED }));
  server.on(AdmissionService.method.admitTasks, () => ({
    results: [{ result: { case: "response" as const, value: { decision: NEWER } } }],
  }));
  server.on(StockService.method.reserveStock, () => ({ outcome: NEWER }));
  await using tollgate = new Tollgate((await server.start()).address, QUICK);
  const [item] = await tollgate.admitMany([{ pool: "p", device: "d", task: "t" }]);
  assert.ok(item?.outcome === "ERROR");
  for (const [error, text] of [
    [await failure(tollgate.pool("p").admit("d", "t")), "AdmitDecision 1,"],
    [await failure(tollgate.stock.reserve("s", "o", 1)), "ReserveOutcome 99,"],
    [item.error, "AdmitDecision 99,"],
  ] as const) {
    assert.deepEqual([error.code, error.reason], ["INTERNAL", "ANSWER_UNKNOWN"]);
    assert.ok(error.message.includes(text), error.message);
  }
});

test("values that no header can carry are bad fields", async () => {
  for (const [field, options] of Object.entries({
    token: { token: "two\nlines" },
    namespace: { namespace: "über" },
  })) {
    assert.throws(
      () => new Tollgate("localhost:1", options),
      (error) => error instanceof TollgateError && error.violations[0]?.field === field,
    );
  }
  await using tollgate = new Tollgate("localhost:1", { token: () => "über" });
  assert.equal((await failure(tollgate.pool("p").status())).code, "UNAUTHENTICATED");
  assert.equal((await failure(tollgate.pool("p").admit("d", ""))).violations[0]?.field, "task_id");
  assert.equal(tollgate.requestsSent, 0);
});

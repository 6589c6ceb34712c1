import assert from "node:assert/strict";
import { test } from "node:test";
import { RetryBudget } from "../src/core/budget.js";
import { date, duration, milliseconds, nameOf, timestamp } from "../src/core/convert.js";
import { type Entry, Scheduler } from "../src/core/scheduler.js";
import { AdmitDecision } from "../src/gen/tollgate/v1/admission_pb.js";
import { rateLimitHeaders } from "../src/headers.js";
import { type RateAnswer, Tollgate } from "../src/index.js";
import { SteppedClock } from "../src/testing.js";

const HOUR_MS = 3_600_000;

test("a scheduler runs entries in the order of their times", () => {
  const clock = new SteppedClock();
  const scheduler = new Scheduler(clock);
  const start = clock.now();
  const ran: number[] = [];
  const hours = Array.from({ length: 200 }, (_, index) => ((index * 7919) % 200) + 1);
  const entries = hours.map((hour) => {
    const entry = Scheduler.entry(() => ran.push(hour));
    scheduler.schedule(entry, start + hour * HOUR_MS);
    return entry;
  });
  const removed = entries.filter((_, index) => index % 3 === 0);
  for (const entry of removed) scheduler.cancel(entry);
  clock.advance(100.5 * HOUR_MS);
  const left = hours.filter((_, index) => index % 3 !== 0).sort((one, two) => one - two);
  assert.deepEqual(
    ran,
    left.filter((hour) => hour <= 100),
  );
  clock.advance(100 * HOUR_MS);
  assert.deepEqual(ran, left);
  assert.equal(scheduler.size, 0);
  scheduler.close();
});

test("an entry can be moved and scheduled again while it runs", () => {
  const clock = new SteppedClock();
  const scheduler = new Scheduler(clock);
  let runs = 0;
  const entry: Entry = Scheduler.entry(() => {
    runs += 1;
    if (runs === 1) scheduler.schedule(entry, clock.now() + HOUR_MS);
  });
  scheduler.schedule(entry, clock.now() + HOUR_MS);
  scheduler.schedule(entry, clock.now() + 3 * HOUR_MS);
  clock.advance(2 * HOUR_MS);
  assert.equal(runs, 0);
  clock.advance(1.5 * HOUR_MS);
  assert.equal(runs, 1);
  clock.advance(2 * HOUR_MS);
  assert.equal(runs, 2);
  scheduler.close();
});

test("a closed scheduler runs nothing", () => {
  const clock = new SteppedClock();
  const scheduler = new Scheduler(clock);
  const entry = Scheduler.entry(() => assert.fail("it ran"));
  scheduler.schedule(entry, clock.now() + HOUR_MS);
  scheduler.close();
  scheduler.schedule(entry, clock.now() + HOUR_MS);
  clock.advance(2 * HOUR_MS);
  assert.equal(scheduler.size, 0);
});

test("a retry budget has its reserve, and a fifth of the calls", () => {
  const budget = new RetryBudget();
  for (let retry = 0; retry < 10; retry += 1) assert.ok(budget.withdraw());
  assert.ok(!budget.withdraw());
  for (let call = 0; call < 6; call += 1) budget.deposit();
  assert.ok(budget.withdraw());
  assert.ok(!budget.withdraw());
});

test("options out of range are refused", () => {
  assert.throws(() => new Tollgate([]), /addresses is empty/);
  assert.throws(() => new Tollgate("127.0.0.1:1", { deadlineMs: 0 }), /deadlineMs is 0/);
  assert.throws(() => new Tollgate("127.0.0.1:1", { retry: { attempts: 0 } }), /retry.attempts is 0/);
  assert.throws(() => new Tollgate("127.0.0.1:1", { retryBudget: { ratio: 2 } }), /retryBudget.ratio is 2/);
  assert.throws(() => new Tollgate("127.0.0.1:1", { token: "a", tokenFile: "b" }), /token and tokenFile/);
  assert.throws(() => new Tollgate("127.0.0.1:1", { tls: { cert: "x" } }), /one of cert and key/);
});

test("durations and times convert exactly", () => {
  for (const ms of [0.001, 1, 999.5, 1000, 86_400_000, -1500]) assert.equal(milliseconds(duration(ms)), ms);
  assert.equal(milliseconds(duration(0.0001)), 0.001);
  assert.throws(() => duration(Number.NaN), /expected a finite number/);
  for (const text of ["2026-11-26T12:34:56.789Z", "1969-12-31T23:59:59.001Z"]) {
    assert.equal(date(timestamp(new Date(text)))?.toISOString(), text);
  }
  assert.equal(nameOf(AdmitDecision, 2), "FULL");
  assert.equal(nameOf(AdmitDecision, 99), "UNSPECIFIED");
});

test("headers have all limits, in whole seconds", () => {
  const limit = {
    name: "",
    max: 10n,
    count: 6n,
    remaining: 4n,
    resetAfterMs: 29_001,
    windowMs: 60_000,
    refused: false,
  };
  const answer: RateAnswer = {
    allowed: false,
    verdict: "THROTTLE",
    limits: [limit, { ...limit, name: 'a "day" é', max: 2n ** 60n, remaining: 0n, windowMs: 1 }],
    crossed: false,
    retryAfterMs: 1,
    ban: undefined,
    replayed: false,
    cached: false,
    degraded: false,
  };
  assert.deepEqual(rateLimitHeaders(answer), {
    ratelimit: '"default";r=4;t=30, "a \\"day\\" %C3%A9";r=0;t=30',
    "ratelimit-policy": '"default";q=10;w=60, "a \\"day\\" %C3%A9";q=1152921504606846976;w=1',
    "retry-after": "1",
  });
  assert.deepEqual(rateLimitHeaders({ ...answer, allowed: true, limits: [] }), {});
});

import assert from "node:assert/strict";
import { failure, permitOf, take, until } from "./support/check.js";
import { onBothEngines } from "./support/engines.js";

onBothEngines({
  "a task is admitted once and completed once": async ({ tollgate, name }) => {
    const pool = tollgate.pool(name);
    await using permit = await permitOf(pool, "d");
    assert.ok(permit.valid && permit.token > 2n ** 40n && !permit.replayed);
    const again = await permitOf(pool, "d");
    assert.deepEqual([again.token, again.replayed], [permit.token, true]);
    again.close();
    assert.equal(await permit.complete({ result: "done" }), "COMPLETED");
    assert.equal(await permit.complete(), "ALREADY_COMPLETED");
    assert.equal((await pool.admit("d", "t")).outcome, "ALREADY_COMPLETED");
  },

  "a full and a paused pool refuse": async ({ tollgate, name }) => {
    const pool = tollgate.pool(name);
    await pool.configure({ capacity: 1, leaseMs: 10_000 });
    await using _ = await permitOf(pool, "d1");
    const full = await pool.admit("d2", "t");
    assert.equal(full.outcome, "FULL");
    assert.ok((full.retryAfterMs ?? 0) > 0);
    assert.deepEqual(full.usage, { capacity: 1, inUse: 1, available: 0 });
    const paused = await pool.configure({ paused: true });
    assert.deepEqual([paused.paused, paused.capacity, paused.leaseMs], [true, 1, 10_000]);
    assert.equal((await pool.admit("d2", "t")).outcome, "PAUSED");
    assert.equal((await pool.configure({ reset: true })).paused, false);
  },

  "a waiting task gets the slot that is freed": async ({ tollgate, name }) => {
    const pool = tollgate.pool(name);
    await pool.configure({ capacity: 1 });
    const first = await permitOf(pool, "d1");
    const waiting = pool.admit("d2", "t", { waitMs: 30_000 });
    await until(async () => (await pool.status()).waiters === 1);
    await first.complete();
    const admission = await waiting;
    assert.equal(admission.outcome, "ADMITTED");
    assert.ok(admission.permit.valid && !admission.permit.replayed);
    await admission.permit.complete();
  },

  "a wait ends with its time, and with its signal": async ({ tollgate, name }) => {
    const pool = tollgate.pool(name);
    await pool.configure({ capacity: 1 });
    await using _ = await permitOf(pool, "d1");
    assert.equal((await pool.admit("d2", "t", { waitMs: 200 })).outcome, "FULL");
    const stop = new AbortController();
    const waiting = failure(pool.admit("d2", "t", { waitMs: 60_000, signal: stop.signal }));
    await until(async () => (await pool.status()).waiters === 1);
    stop.abort();
    assert.equal((await waiting).code, "CANCELLED");
    await until(async () => (await pool.status()).waiters === 0);
  },

  "waits do not delay other calls": async ({ tollgate, name }) => {
    const pool = tollgate.pool(name);
    await pool.configure({ capacity: 1 });
    await using permit = await permitOf(pool, "d");
    const stop = new AbortController();
    const waits = Array.from({ length: 450 }, (_, index) =>
      failure(pool.admit(`w${String(index)}`, "t", { waitMs: 60_000, signal: stop.signal })),
    );
    await until(async () => (await pool.status()).waiters === 450);
    assert.equal(await permit.renew(), "RENEWED");
    stop.abort();
    for (const { code } of await Promise.all(waits)) assert.equal(code, "CANCELLED");
  },

  "queued tasks are dispatched in order, with payload and attempt": async ({ tollgate, name }) => {
    const pool = tollgate.pool(name);
    assert.equal((await pool.poll("d")).outcome, "NO_TASK");
    const past = new Date(Date.now() - 60_000);
    const tasks = [
      { device: "d", task: "t1", payload: "one" },
      { device: "d", task: "t2", payload: new Uint8Array([2]) },
      { device: "d", task: "t3", expireTime: past },
    ];
    assert.deepEqual(await pool.enqueue(tasks), ["ENQUEUED", "ENQUEUED", "EXPIRED"]);
    assert.deepEqual(await pool.enqueue(tasks.slice(0, 1)), ["DUPLICATE"]);
    assert.equal((await pool.status()).queued, 2n);
    const first = await pool.poll("d");
    assert.equal(first.outcome, "ADMITTED");
    const { permit } = first;
    assert.deepEqual(
      [permit.task, permit.attempt, Buffer.from(permit.payload ?? []).toString()],
      ["t1", 1, "one"],
    );
    const states = await take(10, pool.tasks());
    assert.deepEqual(
      states.map(({ task, state }) => [task, state]),
      [
        ["t1", "RUNNING"],
        ["t2", "QUEUED"],
      ],
    );
    assert.equal(await permit.complete({ outcome: "FAILED" }), "COMPLETED");
    const ends = (await take(10, pool.tasks())).map(({ lastAttemptEnd }) => lastAttemptEnd);
    assert.deepEqual(ends, ["FAILED", undefined]);
    const second = await pool.poll("d");
    assert.equal(second.outcome, "ADMITTED");
    assert.deepEqual([second.permit.task, second.permit.attempt], ["t1", 2]);
    await second.permit.complete();
    assert.deepEqual(await pool.cancel("d", "t2"), { verdict: "CANCELLED", replayed: false });
    assert.deepEqual(await pool.cancel("d", "t2"), { verdict: "CANCELLED", replayed: true });
    assert.equal((await pool.cancel("d", "t9")).verdict, "UNKNOWN");
    assert.equal(await pool.requeue("d", "t2"), "NOT_DEAD");
    assert.equal(await pool.requeue("d", "t9"), "UNKNOWN");
  },

  "an evicted permit is lost, and its result is late": async ({ tollgate, name }) => {
    const pool = tollgate.pool(name);
    await pool.configure({ leaseMs: 600 });
    const permit = await permitOf(pool, "d");
    const lost = new Promise((resolve) => {
      permit.signal.addEventListener("abort", resolve);
    });
    assert.deepEqual(await pool.evict("d", "t", { reason: "test" }), { verdict: "EVICTED", replayed: false });
    assert.equal((await pool.evict("d", "t")).replayed, true);
    await lost;
    assert.equal(await permit.complete(), "LATE");
  },

  "a lease outlives its first length with a keeper, and ends without": async ({ tollgate, name }) => {
    const pool = tollgate.pool(name);
    await pool.configure({ leaseMs: 500 });
    await using kept = await permitOf(pool, "kept");
    const left = await permitOf(pool, "left", "t", false);
    await until(async () => (await pool.status()).inUse === 1);
    assert.ok(left.lost && kept.valid);
    const [lease] = await take(1, pool.leases());
    assert.deepEqual([lease?.device, lease?.task, lease?.token], ["kept", "t", kept.token]);
    assert.equal(await kept.complete(), "COMPLETED");
  },

  "a task without its permit is renewed and completed": async ({ tollgate, name }) => {
    const pool = tollgate.pool(name);
    const { token } = await permitOf(pool, "d", "t", false);
    const renewed = await pool.renew("d", "t", { token, leaseMs: 90_000 });
    assert.equal(renewed.verdict, "RENEWED");
    assert.ok(renewed.validForMs > 0 && renewed.validForMs <= 90_000);
    assert.deepEqual(await pool.renew("d", "t", { token: token + 1n }), {
      verdict: "STALE_TOKEN",
      validForMs: 0,
    });
    assert.equal(await pool.complete("d", "t", { token: token + 1n }), "STALE_TOKEN");
    assert.equal(await pool.complete("d", "t", { token }), "COMPLETED");
    assert.equal(await pool.complete("d", "other"), "UNKNOWN");
  },

  "pools are listed, and bad names are violations": async ({ tollgate, name }) => {
    await tollgate.pool(name).configure({ capacity: 3 });
    const pools = await take(1000, tollgate.pools());
    assert.equal(pools.find(({ pool }) => pool === name)?.capacity, 3);
    const error = await failure(tollgate.pool("").admit("", "t"));
    assert.equal(error.code, "INVALID_ARGUMENT");
    assert.deepEqual(
      error.violations.map(({ field }) => field),
      ["pool", "device_id"],
    );
  },
});

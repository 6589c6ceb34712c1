import assert from "node:assert/strict";
import type { Allocator } from "../src/index.js";
import { failure, permitOf, take, until } from "./support/check.js";
import { onBothEngines } from "./support/engines.js";

onBothEngines({
  "rates: a policy throttles, a rule in the call bans": async ({ tollgate, name }) => {
    const { rates } = tollgate;
    const first = await rates.check(name, "two", { requestId: name });
    assert.deepEqual([first.allowed, first.verdict, first.limits[0]?.remaining], [true, "ALLOW", 1n]);
    assert.equal((await rates.check(name, "two", { requestId: name })).replayed, true);
    assert.equal((await rates.check(name, "two", { cost: 0 })).limits[0]?.count, 1n);
    await rates.check(name, "two");
    const refused = await rates.check(name, "two");
    assert.deepEqual(
      [refused.allowed, refused.verdict, refused.limits[0]?.refused],
      [false, "THROTTLE", true],
    );
    assert.ok((refused.retryAfterMs ?? 0) > 0);
    assert.equal(await rates.reset(name, "two"), true);
    const rule = {
      limits: [{ name: "calls", max: 1n, windowMs: 60_000, algorithm: "FIXED_WINDOW" as const }],
      tiers: [{ above: 1, action: "BAN" as const, banMs: [30_000] }],
    };
    assert.equal((await rates.check(name, rule)).verdict, "ALLOW");
    const banned = await rates.check(name, rule);
    assert.deepEqual([banned.verdict, banned.crossed, banned.ban?.strikes], ["BAN", true, 1]);
    const results = await rates.checkMany([
      { key: name, against: "two" },
      { key: name, against: rule },
    ]);
    assert.deepEqual(
      results.map((result) => "allowed" in result && result.allowed),
      [true, false],
    );
    assert.equal((await failure(rates.check(name, "unknown"))).code, "NOT_FOUND");
  },

  "rates: bans are set, listed and lifted": async ({ tollgate, name }) => {
    const { rates } = tollgate;
    const ban = await rates.ban(name, 60_000, { policy: "two", reason: "test" });
    assert.deepEqual([ban?.key, ban?.reason], [name, "test"]);
    assert.equal((await rates.check(name, "two")).verdict, "BAN");
    const keys = (await take(1000, rates.bans("two"))).map(({ key }) => key);
    assert.ok(keys.includes(name));
    const key = await rates.key(name, "two");
    assert.deepEqual([key.ban, key.strikes, key.limits[0]?.count], [ban, 1, 0n]);
    assert.equal(await rates.unban(name, "two"), true);
    assert.deepEqual(await rates.policies(), ["two", "warned"]);
  },

  "sequences: values are exact and distinct": async ({ tollgate, name }) => {
    const { sequences } = tollgate;
    const floor = 2n ** 62n;
    const values = await sequences.next(name, { count: 3, step: 5, floor, requestId: name });
    assert.equal(values.first, floor);
    assert.equal(values.last, floor + 10n);
    assert.equal(values.floorApplied, true);
    const replay = await sequences.next(name, { count: 3, step: 5, floor, requestId: name });
    assert.deepEqual([replay.first, replay.replayed], [values.first, true]);
    assert.equal((await sequences.last(name)).last, values.last);
    const order = await sequences.next(`order:${name}`, { count: 2 });
    assert.deepEqual(order.serials, ["ORD-000001", "ORD-000002"]);
  },

  "sequences: concurrent allocators never hand out a value twice": async ({ tollgate, name }) => {
    const open = (): Allocator => tollgate.sequences.allocator(`serial:${name}`, { block: 10 });
    const allocators = [open(), open()];
    const calls = allocators.flatMap((allocator) => Array.from({ length: 100 }, () => allocator.next()));
    const allocations = await Promise.all(calls);
    assert.equal(new Set(allocations.map(({ value }) => value)).size, 200);
    for (const { value, serial } of allocations) assert.equal(serial, String(value));
  },

  "locks: one owner at a time, in order of arrival": async ({ tollgate, name }) => {
    const { locks } = tollgate;
    const first = await locks.acquire(name, { leaseMs: 600 });
    assert.equal(first.outcome, "ACQUIRED");
    const { lock } = first;
    const held = await locks.acquire(name);
    assert.equal(held.outcome, "HELD");
    assert.deepEqual([held.holder, held.retryAfterMs > 0], [lock.owner, true]);
    const waiting = locks.acquire(name, { waitMs: 30_000 });
    await until(async () => (await locks.status(name)).waiters === 1);
    assert.equal(await lock.renew(), "RENEWED");
    assert.equal(await lock.release(), "RELEASED");
    const second = await waiting;
    assert.equal(second.outcome, "ACQUIRED");
    assert.ok(second.lock.token > lock.token);
    assert.deepEqual(await second.lock.use((each) => each.valid), true);
    assert.equal((await locks.status(name)).held, false);
    assert.equal(await lock.renew(), "NOT_HELD");
  },

  "locks: a cancelled wait leaves the queue": async ({ tollgate, name }) => {
    const first = await tollgate.locks.acquire(name);
    assert.equal(first.outcome, "ACQUIRED");
    const stop = new AbortController();
    const waiting = failure(tollgate.locks.acquire(name, { waitMs: 60_000, signal: stop.signal }));
    await until(async () => (await tollgate.locks.status(name)).waiters === 1);
    stop.abort();
    assert.equal((await waiting).code, "CANCELLED");
    await until(async () => (await tollgate.locks.status(name)).waiters === 0);
    await first.lock.close();
  },

  "locks: a lock without a keeper is lost": async ({ tollgate, name }) => {
    const answer = await tollgate.locks.acquire(name, { leaseMs: 300, keeper: false });
    assert.equal(answer.outcome, "ACQUIRED");
    const { lock } = answer;
    await new Promise((resolve) => {
      lock.signal.addEventListener("abort", resolve);
    });
    assert.ok(lock.lost);
    await until(async () => !(await tollgate.locks.status(name)).held);
    assert.equal(await lock.release(), "NOT_HELD");
  },

  "stock: a reservation is confirmed, cancelled, or refused": async ({ tollgate, name }) => {
    const { stock } = tollgate;
    assert.equal((await failure(stock.get(name))).code, "NOT_FOUND");
    await stock.set(name, 10n);
    const added = await stock.add(name, -2n, { requestId: name });
    assert.deepEqual([added.stock.onHand, added.replayed], [8n, false]);
    assert.equal((await stock.add(name, -2n, { requestId: name })).replayed, true);
    const kept = await stock.reserve(name, "o1", 3n, { holdMs: 60_000, buyer: "b", buyerLimit: 4n });
    assert.equal(kept.outcome, "RESERVED");
    const { reservation } = kept;
    const held = { onHand: 8n, available: 5n, reserved: 3n, sold: 0n, holds: 1n };
    assert.deepEqual(await stock.get(name), held);
    assert.ok(reservation.validForMs > 0 && reservation.validForMs <= 60_000);
    const limited = await stock.reserve(name, "o2", 2, { buyer: "b", buyerLimit: 4n });
    assert.equal(limited.outcome, "BUYER_LIMIT");
    assert.equal(limited.buyerQuantity, 3n);
    const short = await stock.reserve(name, "o3", 6);
    assert.equal(short.outcome, "SHORT");
    assert.ok((short.retryAfterMs ?? 0) > 0);
    const confirmed = await reservation.use((each) => each.confirm());
    assert.deepEqual([confirmed.outcome, confirmed.retaken, confirmed.stock.sold], ["CONFIRMED", false, 3n]);
    const settled = await stock.reserve(name, "o1", 3);
    assert.equal(settled.outcome, "ALREADY_SETTLED");
    assert.equal(settled.state, "CONFIRMED");
    const left = await stock.reserve(name, "o4", 5);
    assert.equal(left.outcome, "RESERVED");
    await assert.rejects(
      left.reservation.use(() => Promise.reject(new Error("no payment"))),
      /no payment/,
    );
    const rest = { onHand: 5n, available: 5n, reserved: 0n, sold: 3n, holds: 0n };
    assert.deepEqual(await stock.get(name), rest);
    assert.equal((await stock.confirm(name, "o4")).outcome, "CANCELLED");
    assert.equal(await stock.cancel(name, "o9"), "UNKNOWN");
  },

  "stock: a late payment takes the quantity again": async ({ tollgate, name }) => {
    const { stock } = tollgate;
    await stock.set(name, 1);
    const late = await stock.reserve(name, "late", 1, { holdMs: 50 });
    assert.equal(late.outcome, "RESERVED");
    await until(async () => (await stock.get(name)).reserved === 0n);
    const answer = await late.reservation.confirm();
    assert.deepEqual([answer.outcome, answer.retaken], ["CONFIRMED", true]);
  },

  "watches: stored and new events arrive in order": async ({ tollgate, name }) => {
    const pool = tollgate.pool(name);
    const permit = await permitOf(pool, "d");
    await permit.complete({ outcome: "FAILED" });
    const events = await take(2, pool.watch({ after: "0" }));
    assert.deepEqual(
      events.map(({ kind, token }) => [kind, token]),
      [
        ["ADMITTED", permit.token],
        ["COMPLETED", permit.token],
      ],
    );
    assert.equal(events[1]?.outcome, "FAILED");
    const rest = await take(1, pool.watch({ after: events[0]?.cursor }));
    assert.deepEqual(rest, events.slice(1));
    for (let call = 0; call < 2; call += 1) await tollgate.rates.check(name, "warned");
    const notices = tollgate.rates.watch("warned", { after: "0" });
    for await (const { kind, key, above } of notices) {
      if (key !== name) continue;
      assert.deepEqual([kind, above], ["WARNED", 1n]);
      break;
    }
  },

  "watches: a signal ends a watch": async ({ tollgate, name }) => {
    const stop = new AbortController();
    const watching = take(1, tollgate.pool(name).watch({ signal: stop.signal }));
    setImmediate(() => {
      stop.abort();
    });
    assert.deepEqual(await watching, []);
  },
});

import assert from "node:assert/strict";
import { test } from "node:test";
import { SleepAwareClock } from "../src/core/clock.js";
import { Scheduler } from "../src/core/scheduler.js";

/** A machine whose time the test moves. */
class Machine {
  /** Step of its uptime, in milliseconds. */
  step = 10;
  /** Number of times its uptime was read. */
  looks = 0;
  #awake = 5_000;
  #slept = 0;
  #wall = 1_000_000;

  readonly monotonic = (): number => this.#awake;
  readonly wall = (): number => this.#wall;
  readonly uptime = (): number | undefined => {
    this.looks += 1;
    const uptime = 77_777 + this.#awake + this.#slept;
    return uptime - (uptime % this.step);
  };

  run(ms: number): void {
    this.#awake += ms;
    this.#wall += ms;
  }

  /** Sleeps. The wall clock may also be set back, so that it hides the sleep. */
  sleep(ms: number, { hidden = false } = {}): void {
    this.#slept += ms;
    if (!hidden) this.#wall += ms;
  }
}

/** Asserts that a clock ran for `ms`, or for at most 1.1 s more. */
function assertRan(clock: SleepAwareClock, start: number, ms: number): void {
  const ran = clock.now() - start;
  assert.ok(ran >= ms && ran <= ms + 1_100, `the clock ran for ${String(ran)} ms instead of ${String(ms)}`);
}

test("the clock advances while the machine sleeps", () => {
  const machine = new Machine();
  const clock = new SleepAwareClock(machine);
  const start = clock.now();
  machine.run(100);
  assert.equal(clock.now() - start, 100);
  machine.sleep(60_000);
  assertRan(clock, start, 60_100);
});

test("a sleep that the wall clock does not show is noticed a little later", () => {
  const machine = new Machine();
  const clock = new SleepAwareClock(machine);
  const start = clock.now();
  machine.sleep(60_000, { hidden: true });
  machine.run(250);
  assertRan(clock, start, 60_250);
});

test("short sleeps add up", () => {
  const machine = new Machine();
  const clock = new SleepAwareClock(machine);
  const start = clock.now();
  for (let round = 0; round < 3; round += 1) {
    machine.sleep(600);
    clock.now();
  }
  assertRan(clock, start, 1_200);
});

for (const step of [10, 1_000]) {
  test(`an uptime in steps of ${String(step)} ms moves the clock only after a sleep`, () => {
    const machine = new Machine();
    machine.step = step;
    const clock = new SleepAwareClock(machine);
    const start = clock.now();
    for (let round = 0; round < 1_000; round += 1) {
      machine.run(251);
      clock.now();
    }
    assert.equal(clock.now() - start, 251_000);
    machine.sleep(5_000);
    const slept = clock.now() - start - 251_000;
    assert.ok(slept >= 5_000 && slept <= 7_000, String(slept));
  });
}

test("the uptime is read at most four times a second", () => {
  const machine = new Machine();
  const clock = new SleepAwareClock(machine);
  for (let ms = 0; ms < 10_000; ms += 1) {
    machine.run(1);
    clock.now();
  }
  assert.ok(machine.looks >= 30 && machine.looks <= 41, String(machine.looks));
});

test("an uptime that starts again still shows the next sleep", () => {
  const machine = new Machine();
  const clock = new SleepAwareClock(machine);
  const start = clock.now();
  machine.sleep(-70_000);
  assert.equal(clock.now() - start, 0);
  machine.sleep(60_000);
  assertRan(clock, start, 60_000);
});

test("without an uptime the clock is that of the process", () => {
  const machine = new Machine();
  const clock = new SleepAwareClock({
    monotonic: machine.monotonic,
    wall: machine.wall,
    uptime: () => undefined,
  });
  const start = clock.now();
  machine.run(1_000);
  assert.equal(clock.now() - start, 1_000);
});

test("a scheduler notices a sleep without a listener", async () => {
  const machine = new Machine();
  const clock = new SleepAwareClock(machine);
  const scheduler = new Scheduler(clock);
  const alive = setInterval(() => undefined, 1_000);
  await new Promise<void>((resolve) => {
    scheduler.schedule(Scheduler.entry(resolve), clock.now() + 3_600_000);
    machine.sleep(3_600_000);
  });
  clearInterval(alive);
  scheduler.close();
});

import assert from "node:assert/strict";
import { test } from "node:test";
import { status } from "@grpc/grpc-js";
import { duration } from "../src/core/convert.js";
import {
  AdmissionService,
  AdmitDecision,
  CompleteVerdict,
  RenewVerdict,
} from "../src/gen/tollgate/v1/admission_pb.js";
import { Tollgate } from "../src/index.js";
import { failure } from "./support/check.js";
import { onBothEngines } from "./support/engines.js";
import { Failure, FaultServer } from "./support/fault.js";

const { admitTasks, completeTasks, renewTasks } = AdmissionService.method;

test("items beyond 1,000 are sent in further calls, in their order", async () => {
  await using server = new FaultServer();
  const calls = server.on(admitTasks, (_, { request }) => ({
    results: request.requests.map(({ taskId }) => ({
      result: {
        case: "response" as const,
        value: {
          decision: AdmitDecision.ADMITTED,
          lease: { taskId, fencingToken: BigInt(taskId), expiresIn: duration(60_000) },
        },
      },
    })),
  }));
  await using tollgate = new Tollgate((await server.start()).address);
  const items = Array.from({ length: 2001 }, (_, index) => ({ pool: "p", device: "d", task: String(index) }));
  const results = await tollgate.admitMany(items);
  assert.deepEqual(
    calls.map(({ request }) => request.requests.length),
    [1000, 1000, 1],
  );
  const tokens = results.map((result) => (result.outcome === "ADMITTED" ? result.permit.token : -1n));
  assert.deepEqual(
    tokens,
    items.map(({ task }) => BigInt(task)),
  );
  for (const result of results) if (result.outcome === "ADMITTED") result.permit.close();
  assert.deepEqual(await tollgate.admitMany([]), []);
});

test("results are split by size", async () => {
  await using server = new FaultServer();
  const calls = server.on(completeTasks, (_, { request }) => ({
    results: request.requests.map(() => ({
      result: { case: "response" as const, value: { verdict: CompleteVerdict.COMPLETED } },
    })),
  }));
  await using tollgate = new Tollgate((await server.start()).address);
  const result = new Uint8Array(65_536);
  const items = Array.from({ length: 100 }, (_, index) => ({
    pool: "p",
    device: "d",
    task: String(index),
    result,
  }));
  const results = await tollgate.completeMany(items);
  assert.ok(calls.length > 1);
  assert.deepEqual(
    calls.flatMap(({ request }) => request.requests.map(({ taskId }) => taskId)),
    items.map(({ task }) => task),
  );
  assert.deepEqual(new Set(results.map(({ outcome }) => outcome)), new Set(["COMPLETED"]));
});

test("an item that fails has its error, and a call that fails as well", async () => {
  await using server = new FaultServer();
  const error = {
    code: 3,
    message: "bad",
    violations: [{ field: "requests[0].pool", description: "is required" }],
  };
  server.on(renewTasks, (number, { request }) =>
    number > 1
      ? new Failure(status.INTERNAL)
      : {
          results: request.requests.map((_, index) =>
            index === 0
              ? { result: { case: "error" as const, value: error } }
              : { result: { case: "response" as const, value: { verdict: RenewVerdict.EXPIRED } } },
          ),
        },
  );
  await using tollgate = new Tollgate((await server.start()).address);
  const items = Array.from({ length: 1001 }, (_, index) => ({ pool: "p", device: "d", task: String(index) }));
  const results = await tollgate.renewMany(items);
  const [first, second, last] = [results[0], results[1], results[1000]];
  assert.ok(first?.outcome === "ERROR" && last?.outcome === "ERROR");
  assert.deepEqual([first.error.code, first.error.violations], ["INVALID_ARGUMENT", error.violations]);
  assert.equal(second?.outcome, "EXPIRED");
  assert.equal(last.error.code, "INTERNAL");
  assert.equal((await failure(tollgate.renewMany(items.slice(0, 1)))).code, "INTERNAL");
});

onBothEngines({
  "tasks of several pools are admitted, renewed and completed": async ({ tollgate, name }) => {
    const pools = [`${name}:a`, `${name}:b`];
    await tollgate.pool(`${name}:b`).configure({ capacity: 1 });
    const items = pools.flatMap((pool) => ["d1", "d2"].map((device) => ({ pool, device, task: "t" })));
    const bad = { pool: name, device: "", task: "t" };
    const admitted = await tollgate.admitMany([...items, bad]);
    assert.deepEqual(
      admitted.map(({ outcome }) => outcome),
      ["ADMITTED", "ADMITTED", "ADMITTED", "FULL", "ERROR"],
    );
    const permits = admitted.flatMap((each) => (each.outcome === "ADMITTED" ? [each.permit] : []));
    const renewed = await tollgate.renewMany(permits);
    assert.deepEqual(
      renewed.map(({ outcome }) => outcome),
      ["RENEWED", "RENEWED", "RENEWED"],
    );
    const completed = await tollgate.completeMany([...permits, bad]);
    assert.deepEqual(
      completed.map(({ outcome }) => outcome),
      ["COMPLETED", "COMPLETED", "COMPLETED", "ERROR"],
    );
    for (const permit of permits) permit.close();
  },
});

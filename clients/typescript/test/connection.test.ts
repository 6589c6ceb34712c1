import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { test } from "node:test";
import { promisify } from "node:util";
import { AdmissionService } from "../src/gen/tollgate/v1/admission_pb.js";
import { openCore } from "../src/connection.js";
import { ChannelGroup, HealthWatch } from "../src/core/channels.js";
import { Server } from "../src/core/server.js";
import { Lanes } from "../src/core/lanes.js";
import { waiting } from "../src/waits.js";
import { credentials } from "@grpc/grpc-js";
import { Tollgate } from "../src/index.js";
import { take, until } from "./support/check.js";
import { FaultServer } from "./support/fault.js";
import { startRedis, startServer } from "./support/server.js";

const { getPool } = AdmissionService.method;

test("calls go to each server in turn, and past one that does not listen", async () => {
  await using one = new FaultServer();
  await using two = new FaultServer();
  const calls = [one, two].map((server) => server.on(getPool, () => ({})));
  const addresses = [(await one.start()).address, "127.0.0.1:1", (await two.start()).address];
  await using tollgate = new Tollgate(addresses, { retry: { firstPauseMs: 1, longestPauseMs: 10 } });
  for (let call = 0; call < 20; call += 1) await tollgate.pool("p").status();
  assert.equal((calls[0]?.length ?? 0) + (calls[1]?.length ?? 0), 20);
  for (const received of calls) assert.ok(received.length >= 5);
});

test("a server that is not serving gets no calls", () => {
  const servers = [new Server("127.0.0.1:1", false), new Server("127.0.0.1:2", false)];
  const group = new ChannelGroup(servers, credentials.createInsecure(), {});
  const picked = (): Set<unknown> => new Set([1, 2, 3].map(() => group.pick().client));
  assert.equal(picked().size, 2);
  servers.forEach((server, index) => (server.serving = index === 1));
  assert.deepEqual(picked(), new Set([group.client(1)]));
  servers.forEach((server) => (server.serving = false));
  assert.equal(picked().size, 2);
  group.close();
});

test("the health of a server is followed", async () => {
  await using server = await startServer();
  const watched = new Server(server.address);
  watched.serving = false;
  const group = new ChannelGroup([watched], credentials.createInsecure(), {
    "grpc.initial_reconnect_backoff_ms": 50,
  });
  const watch = new HealthWatch(watched, group.client(0));
  await until(() => watched.serving);
  watch.close();
  group.close();
});

test("waiting calls fill a connection before the next one is opened", () => {
  let opened = 0;
  let closed = 0;
  const group = (): ChannelGroup => {
    opened += 1;
    const made = new ChannelGroup([], credentials.createInsecure(), {});
    made.close = () => {
      closed += 1;
    };
    return made;
  };
  const lanes = new Lanes(group);
  const entered = Array.from({ length: 401 }, () => lanes.enter());
  assert.equal(opened, 3);
  for (const lane of entered) lanes.leave(lane);
  assert.equal(closed, 2);
  lanes.enter();
  assert.equal(opened, 3);
});

test("a long wait overlaps its calls, and ends with the first final answer", async () => {
  const { caller, close } = openCore(["127.0.0.1:1"], {});
  const sent: number[] = [];
  let running = 0;
  let overlapped = false;
  const answer = await waiting(
    caller,
    {
      waitMs: 60_000,
      signal: undefined,
      send: async (waitMs, { signal }) => {
        sent.push(waitMs);
        running += 1;
        overlapped ||= running > 1;
        const last = sent.length === 3;
        await new Promise((resolve) => {
          if (last) setTimeout(resolve, 5);
          else setTimeout(resolve, waitMs);
          signal?.addEventListener("abort", resolve);
        });
        running -= 1;
        return { message: last ? "ADMITTED" : "FULL", sentAt: 0 };
      },
      pauseMs: (message) => (message === "FULL" ? 1000 : undefined),
      onFailure: () => undefined,
    },
    { sliceMs: 50, overlapMs: 30 },
  );
  assert.equal(answer.message, "ADMITTED");
  assert.deepEqual(sent, [80, 80, 80]);
  assert.ok(overlapped);
  close();
});

test("a watch resumes after its last event when the server restarts", async () => {
  await using redis = await startRedis();
  await using server = await startServer(`redis://${redis.address}`);
  await using tollgate = new Tollgate(server.address);
  const pool = tollgate.pool("watched");
  const kinds: string[] = [];
  const stop = new AbortController();
  const watching = (async () => {
    for await (const { kind, task } of pool.watch({ after: "0", signal: stop.signal }))
      kinds.push(`${kind} ${task}`);
  })();
  await pool.enqueue([{ device: "d", task: "t1" }]);
  await until(() => kinds.length === 1);
  await server.stop();
  await server.start();
  await until(async () => {
    const queued = await pool.enqueue([{ device: "d", task: "t2" }]).catch(() => undefined);
    return queued !== undefined;
  });
  await until(() => kinds.length === 2);
  assert.deepEqual(kinds, ["ENQUEUED t1", "ENQUEUED t2"]);
  stop.abort();
  await watching;
});

test("keepers and idle connections do not keep a process alive", async () => {
  await using server = await startServer();
  const program = `
    import { Tollgate } from "${new URL("../src/index.js", import.meta.url).href}";
    const tollgate = new Tollgate("${server.address}");
    const { outcome } = await tollgate.pool("p").admit("d", "t");
    console.log(outcome);`;
  const flags = ["--input-type=module", "--eval", program];
  const { stdout } = await promisify(execFile)(process.execPath, flags);
  assert.equal(stdout, "ADMITTED\n");
  await using tollgate = new Tollgate(server.address);
  const [lease] = await take(1, tollgate.pool("p").leases());
  assert.equal(lease?.task, "t");
});

/**
 * Backend of devices that take snapshots: at most 60 devices use the external system at once.
 *
 *   TOLLGATE_SERVER=127.0.0.1:50051 node device-backend.js camera-1 camera-2
 *
 * It queues a task for each device, and runs the queued tasks until SIGINT or SIGTERM.
 */
import { type Permit, Tollgate, TollgateError } from "@tollgate/client";

const devices = process.argv.slice(2);
const tollgate = new Tollgate(process.env["TOLLGATE_SERVER"] ?? "127.0.0.1:50051");
const pool = tollgate.pool("ar:0571");

/** Takes the snapshot. The signal is aborted when another device may have the slot. */
async function snapshot(permit: Permit, signal: AbortSignal): Promise<string> {
  const target = Buffer.from(permit.payload ?? []).toString();
  // Send the token along: the external system can refuse one that is older than the last.
  const request = { device: permit.device, target, token: String(permit.token) };
  await new Promise((resolve, reject) => {
    setTimeout(resolve, 100);
    signal.addEventListener("abort", () => {
      reject(new Error("the lease is lost"));
    });
  });
  return JSON.stringify(request);
}

await pool.configure({ capacity: 60, leaseMs: 30_000 });
const day = new Date().toISOString().slice(0, 10);
const tasks = devices.map((device) => ({ device, task: `snapshot-${day}`, payload: "entrance" }));
if (tasks.length > 0) console.log("queued:", await pool.enqueue(tasks));

const workers = devices.map((device) =>
  pool
    .worker(device, snapshot, {
      onDone: ({ device, task, attempt }, verdict) => {
        console.log(`${device} ${task}: attempt ${String(attempt)}, ${verdict}`);
      },
      onError: (error) => {
        console.error(error instanceof TollgateError ? `${error.code}: ${error.message}` : error);
      },
    })
    .start(),
);

await new Promise<void>((resolve) => {
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, resolve);
});
// Running tasks are completed before the process ends.
await Promise.all(workers.map((worker) => worker.stop()));
tollgate.close();

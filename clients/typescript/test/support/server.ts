import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { setTimeout as pause } from "node:timers/promises";

const REPOSITORY = fileURLToPath(new URL("../../../../../..", import.meta.url));

/** Policies and sequences of the test servers. */
const CONFIGURATION = `
[[policy]]
name = "two"
limit = [{ name = "minute", max = 2, window = "60s" }]

[[policy]]
name = "warned"
limit = [{ max = 5, window = "60s" }]
tier = [{ above = 1, action = "WARN" }]

[[sequence]]
match = "order:*"
layout = "ORD-{n:06}"

[[sequence]]
match = "serial:*"
layout = "timestamp17"
`;

/** A server of Tollgate, or a Redis. */
export interface TestServer extends AsyncDisposable {
  readonly address: string;
  /** Sends a signal to the process. */
  kill(signal: NodeJS.Signals): void;
  /** Ends the process. */
  stop(): Promise<void>;
  /** Starts it again on the same address. */
  start(): Promise<void>;
}

/** Returns the server program; undefined if it was not built. */
export function program(): string {
  const binary = process.env["TOLLGATE_BINARY"] ?? join(REPOSITORY, "target/debug/tollgate");
  if (!existsSync(binary)) throw new Error(`there is no server program ${binary}: run cargo build`);
  return binary;
}

/** Returns a free port of 127.0.0.1. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}

/** Starts a server. Its state survives a restart if the engine is a Redis. */
export async function startServer(engine = "embedded", flags: readonly string[] = []): Promise<TestServer> {
  const folder = mkdtempSync(join(tmpdir(), "tollgate-"));
  const file = join(folder, "tollgate.toml");
  writeFileSync(file, CONFIGURATION);
  const port = await freePort();
  const listen = `127.0.0.1:${String(port)}`;
  const admin = ["--admin", "off", "--log-level", "error"];
  const command = ["serve", "--listen", listen, "--engine", engine, "--config", file, ...admin, ...flags];
  return runProcess(program(), command, port, folder);
}

/** Starts a Redis. */
export async function startRedis(): Promise<TestServer> {
  const folder = mkdtempSync(join(tmpdir(), "tollgate-redis-"));
  const port = await freePort();
  const flags = ["--port", String(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder];
  return runProcess("redis-server", flags, port, folder);
}

/** Processes to end with this one, even if a test has failed. */
const children = new Set<ChildProcess>();
process.on("exit", () => {
  for (const child of children) child.kill("SIGKILL");
});
process.on("SIGTERM", () => process.exit(143));

async function runProcess(
  binary: string,
  flags: string[],
  port: number,
  folder: string,
): Promise<TestServer> {
  let child: ChildProcess | undefined;
  const stop = async (): Promise<void> => {
    if (child?.exitCode !== null) return;
    const exited = once(child, "exit");
    child.kill("SIGKILL");
    await exited;
  };
  const start = async (): Promise<void> => {
    child = spawn(binary, flags, { stdio: "ignore" });
    children.add(child);
    await listening(port, child);
  };
  await start();
  return {
    address: `127.0.0.1:${String(port)}`,
    kill: (signal) => child?.kill(signal),
    stop,
    start,
    [Symbol.asyncDispose]: async () => {
      await stop();
      rmSync(folder, { recursive: true });
    },
  };
}

async function listening(port: number, child: ChildProcess): Promise<void> {
  for (;;) {
    if (child.exitCode !== null) throw new Error(`the server exited with ${String(child.exitCode)}`);
    const socket = connect(port, "127.0.0.1");
    const connected = await new Promise<boolean>((resolve) => {
      socket.once("connect", () => {
        resolve(true);
      });
      socket.once("error", () => {
        resolve(false);
      });
    });
    socket.destroy();
    if (connected) return;
    await pause(50);
  }
}

import { randomUUID } from "node:crypto";
import { after, before, describe, it } from "node:test";
import { type ConnectOptions, Tollgate } from "../../src/index.js";
import { startRedis, startServer, type TestServer } from "./server.js";

/** What a test gets: a connection to a server, and a name that no other test uses. */
export interface World {
  readonly tollgate: Tollgate;
  readonly server: TestServer;
  readonly name: string;
  /** Opens a further connection. */
  readonly connect: (options?: ConnectOptions) => Tollgate;
}

/** A test with its title. */
export type Cases = Readonly<Record<string, (world: World) => Promise<void>>>;

/** Runs tests against a server on both engines. */
export function onBothEngines(cases: Cases): void {
  for (const engine of ["embedded", "redis"]) {
    describe(engine, () => {
      const started: AsyncDisposable[] = [];
      let server: TestServer | undefined;
      before(async () => {
        const redis = engine === "redis" ? await startRedis() : undefined;
        server = await startServer(redis === undefined ? "embedded" : `redis://${redis.address}`);
        started.push(server, ...(redis === undefined ? [] : [redis]));
      });
      after(async () => {
        for (const each of started) await each[Symbol.asyncDispose]();
      });
      for (const [title, run] of Object.entries(cases)) {
        it(title, async () => {
          if (server === undefined) throw new Error("there is no server");
          await withWorld(server, run);
        });
      }
    });
  }
}

async function withWorld(server: TestServer, run: (world: World) => Promise<void>): Promise<void> {
  const opened: Tollgate[] = [];
  const connect = (options?: ConnectOptions): Tollgate => {
    const tollgate = new Tollgate(server.address, options);
    opened.push(tollgate);
    return tollgate;
  };
  try {
    await run({ tollgate: connect(), server, name: `ar:${randomUUID()}`, connect });
  } finally {
    for (const tollgate of opened) tollgate.close();
  }
}

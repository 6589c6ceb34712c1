import { readFileSync } from "node:fs";
import { type AddressInfo } from "node:net";
import { createServer, type Server } from "node:http";
import { once } from "node:events";
import express, { type NextFunction, type Request, type Response } from "express";
import { rateLimit } from "../src/express.js";
import {
  addressKey,
  type ConnectOptions,
  type OnFailure,
  Permit,
  type Pool,
  Tollgate,
} from "../src/index.js";
import * as field from "./fields.js";
import type { Fields } from "./fields.js";
import type { Command, Session } from "./session.js";

function connectOptions(session: Session, fields: Fields): ConnectOptions {
  const file = (name: string): Buffer | undefined => {
    const path = field.optionalText(fields, name);
    return path === undefined ? undefined : readFileSync(path);
  };
  const [ca, cert, key] = [file("ca"), file("cert"), file("key")];
  const serverName = field.optionalText(fields, "server_name");
  const callback = field.optionalText(fields, "token_callback");
  const given = {
    tls: ca && { ca, ...(cert && { cert }), ...(key && { key }), ...(serverName && { serverName }) },
    token: callback ? () => readFileSync(callback, "utf8").trim() : field.optionalText(fields, "token"),
    tokenFile: field.optionalText(fields, "token_file"),
    namespace: field.optionalText(fields, "namespace"),
    deadlineMs: field.optionalMs(fields, "deadline"),
  };
  const present = Object.entries(given).filter(([, value]) => value !== undefined);
  return { ...(Object.fromEntries(present) as ConnectOptions), clock: session.clock };
}

/** Commands about connections and the clock. */
export const connectionCommands: Record<string, Command> = {
  open: (session, fields) => {
    const addresses = fields["addresses"] as string[];
    const name = field.optionalText(fields, "connection") ?? "main";
    session.connections.set(name, new Tollgate(addresses, connectOptions(session, fields)));
    return {};
  },
  close: (session, fields) => {
    session.close(fields);
    return {};
  },
  clock: (session, fields) => {
    session.clock.advance(field.number(fields, "advance") * 1000);
    return {};
  },
};

/** A set of permits. */
class Hold {
  constructor(readonly permits: readonly Permit[]) {}
}

async function admitOne(pool: Pool, task: string, leaseMs: number | undefined): Promise<Permit | undefined> {
  const admission = await pool.admit(task, task, { leaseMs });
  return admission.outcome === "ADMITTED" ? admission.permit : undefined;
}

/** Runs `job` for 0 to `count` - 1, `parallel` at a time. */
async function inParallel(
  count: number,
  parallel: number,
  job: (index: number) => Promise<void>,
): Promise<void> {
  let next = 0;
  const lane = async (): Promise<void> => {
    for (let index = next++; index < count; index = next++) await job(index);
  };
  await Promise.all(Array.from({ length: parallel }, lane));
}

/** Commands that measure the library. */
export const loadCommands: Record<string, Command> = {
  hold: async (session, fields) => {
    const pool = session.pool(fields);
    const handle = field.text(fields, "handle");
    const permits: Permit[] = [];
    await inParallel(field.number(fields, "count"), 32, async (index) => {
      const permit = await admitOne(pool, `${handle}-${String(index)}`, field.optionalMs(fields, "lease"));
      if (permit !== undefined) permits.push(permit);
    });
    session.put(fields, new Hold(permits));
    return { admitted: permits.length };
  },
  held: (session, fields) => {
    const { permits } = session.get(fields, Hold);
    const valid = permits.filter((permit) => permit.valid).length;
    return { valid, lost: permits.filter((permit) => permit.lost).length };
  },
  release: async (session, fields) => {
    const { permits } = session.take(fields, Hold);
    let completed = 0;
    await inParallel(permits.length, 32, async (index) => {
      if ((await permits[index]?.complete()) === "COMPLETED") completed += 1;
    });
    return { completed };
  },
  pairs: async (session, fields) => {
    const pool = session.pool(fields);
    const run = String(process.hrtime.bigint());
    let completed = 0;
    await inParallel(
      field.number(fields, "count"),
      field.optionalNumber(fields, "parallel") ?? 1,
      async (index) => {
        const permit = await admitOne(pool, `pair-${run}-${String(index)}`, undefined);
        if ((await permit?.complete()) === "COMPLETED") completed += 1;
      },
    );
    return { completed };
  },
  usage: (session) => {
    globalThis.gc?.();
    const { user, system } = process.cpuUsage();
    return {
      cpu_seconds: (user + system) / 1e6,
      rss_bytes: process.memoryUsage.rss(),
      calls: session.requests,
    };
  },
};

/** A web server with the middleware. */
class WebServer {
  constructor(readonly server: Server) {}
}

/** Commands about web servers. */
export const webCommands: Record<string, Command> = {
  http_start: async (session, fields) => {
    const onFailure = (field.optionalText(fields, "on_failure") ?? "error") as OnFailure;
    const limiter = session.connection(fields).rates.limiter(field.text(fields, "policy"), { onFailure });
    const app = express();
    app.use(rateLimit(limiter, { key: (request) => request.get("x-caller") }));
    app.use((_, response) => {
      response.send("ok\n");
    });
    app.use((_error: unknown, _: Request, response: Response, _next: NextFunction) => {
      response.sendStatus((_error as { status: number }).status);
    });
    const server = createServer(app);
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    session.put(fields, new WebServer(server));
    return { url: `http://127.0.0.1:${String((server.address() as AddressInfo).port)}` };
  },
  address_key: (_, fields) => ({
    key: addressKey(field.text(fields, "address"), field.optionalNumber(fields, "prefix")),
  }),
  http_stop: (session, fields) => {
    const { server } = session.take(fields, WebServer);
    server.close();
    server.closeAllConnections();
    return {};
  },
};

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, it, test } from "node:test";
import {
  Client,
  credentials,
  Metadata,
  Server,
  ServerCredentials,
  type ServiceError,
  status,
} from "@grpc/grpc-js";
import express from "express";
import fastify from "fastify";
import { fromServiceError } from "../src/core/errors.js";
import { rateLimit as forExpress } from "../src/express.js";
import { rateLimit as forFastify } from "../src/fastify.js";
import { rateLimit as forGrpc } from "../src/grpc.js";
import { type Limiter, type OnFailure, Tollgate } from "../src/index.js";
import { startServer } from "./support/server.js";

interface Site extends AsyncDisposable {
  readonly url: string;
}

async function expressSite(limiter: Limiter): Promise<Site> {
  const app = express();
  app.use(forExpress(limiter, { key: (request) => request.get("x-caller") }));
  app.get("/", (_, response) => {
    response.send("hello");
  });
  app.use((_error: unknown, _: express.Request, response: express.Response, _next: express.NextFunction) => {
    response.sendStatus((_error as { status: number }).status);
  });
  const server = createServer(app).listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${String((server.address() as AddressInfo).port)}`;
  return {
    url,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

async function fastifySite(limiter: Limiter): Promise<Site> {
  const app = fastify({ forceCloseConnections: true });
  const key = (request: { headers: NodeJS.Dict<string | string[]> }): string | undefined =>
    request.headers["x-caller"]?.toString();
  app.addHook("onRequest", forFastify(limiter, { key }));
  app.get("/", () => "hello");
  return { url: await app.listen({ host: "127.0.0.1", port: 0 }), [Symbol.asyncDispose]: () => app.close() };
}

async function get(site: Site, caller?: string): Promise<[number, string, Headers]> {
  const response = await fetch(site.url, caller === undefined ? {} : { headers: { "x-caller": caller } });
  return [response.status, await response.text(), response.headers];
}

for (const [framework, open] of Object.entries({ express: expressSite, fastify: fastifySite })) {
  describe(framework, () => {
    it("refuses with 429 and the headers of the limit", async () => {
      await using server = await startServer();
      await using tollgate = new Tollgate(server.address);
      await using site = await open(tollgate.rates.limiter("two"));
      for (const remaining of [1, 0]) {
        const [code, body, headers] = await get(site, "a");
        assert.deepEqual([code, body, headers.get("retry-after")], [200, "hello", null]);
        assert.match(
          headers.get("ratelimit") ?? "",
          new RegExp(`^"minute";r=${String(remaining)};t=\\d+$`, "u"),
        );
        assert.equal(headers.get("ratelimit-policy"), '"minute";q=2;w=60');
      }
      const [code, body, headers] = await get(site, "a");
      assert.deepEqual([code, body], [429, "Too Many Requests\n"]);
      assert.match(headers.get("retry-after") ?? "", /^[1-9]\d*$/u);
      assert.equal((await get(site, "b"))[0], 200);
      const [, , unchecked] = await get(site);
      assert.equal(unchecked.get("ratelimit"), null);
    });

    it("lets pass, refuses, or fails with 503 without a server", async () => {
      const codes: Record<OnFailure, number> = { open: 200, closed: 429, error: 503 };
      await using tollgate = new Tollgate("127.0.0.1:1", { retry: { attempts: 1 } });
      for (const [onFailure, code] of Object.entries(codes)) {
        await using site = await open(tollgate.rates.limiter("two", { onFailure: onFailure as OnFailure }));
        assert.equal((await get(site, "a"))[0], code);
      }
    });
  });
}

test("a gRPC server answers RESOURCE_EXHAUSTED with RetryInfo", async () => {
  await using tollgateServer = await startServer();
  await using tollgate = new Tollgate(tollgateServer.address);
  const key = ({ metadata }: { metadata: Metadata }): string | undefined =>
    metadata.get("x-caller")[0]?.toString();
  const server = new Server({ interceptors: [forGrpc(tollgate.rates.limiter("two"), { key })] });
  const same = (message: Buffer): Buffer => message;
  server.register(
    "/test/Echo",
    (call: { request: Buffer }, answer: (error: null, value: Buffer) => void) => {
      answer(null, call.request);
    },
    same,
    same,
    "unary",
  );
  const port = await new Promise<number>((resolve) => {
    server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (_, bound) => {
      resolve(bound);
    });
  });
  const client = new Client(`127.0.0.1:${String(port)}`, credentials.createInsecure());
  const echo = (caller?: string): Promise<ServiceError | string> =>
    new Promise((resolve) => {
      const metadata = new Metadata();
      if (caller !== undefined) metadata.set("x-caller", caller);
      client.makeUnaryRequest("/test/Echo", same, same, Buffer.from("hi"), metadata, (error, value) => {
        resolve(error ?? String(value));
      });
    });
  assert.deepEqual([await echo("a"), await echo("a")], ["hi", "hi"]);
  const refused = await echo("a");
  assert.ok(typeof refused !== "string");
  assert.equal(refused.code, status.RESOURCE_EXHAUSTED);
  assert.ok((fromServiceError(refused).retryAfterMs ?? 0) > 0);
  assert.deepEqual([await echo("b"), await echo()], ["hi", "hi"]);
  client.close();
  server.forceShutdown();
});

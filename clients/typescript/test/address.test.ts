import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import express from "express";
import fastify from "fastify";
import { CheckLog } from "../src/core/checklog.js";
import { rateLimit as forExpress } from "../src/express.js";
import { rateLimit as forFastify } from "../src/fastify.js";
import { addressKey, type Limiter, Tollgate, TollgateError } from "../src/index.js";
import { startServer } from "./support/server.js";

/** Addresses of one /64, in different /80. */
const ADDRESSES = ["2001:db8:1:2:1::1", "2001:db8:1:2:2::2", "2001:db8:1:2:3::3"];

test("the default key of Express is the network of the caller", async () => {
  await using server = await startServer();
  await using tollgate = new Tollgate(server.address);
  const statuses = async (limiter: Limiter, ipv6Prefix?: number): Promise<number[]> => {
    const app = express().set("trust proxy", true);
    app.use(forExpress(limiter, ipv6Prefix === undefined ? {} : { ipv6Prefix }));
    app.get("/", (_, response) => void response.send("hello"));
    const web = createServer(app).listen(0, "127.0.0.1");
    await once(web, "listening");
    const url = `http://127.0.0.1:${String((web.address() as AddressInfo).port)}`;
    const all = [];
    for (const address of ADDRESSES) {
      all.push((await fetch(url, { headers: { "x-forwarded-for": address } })).status);
    }
    web.closeAllConnections();
    web.close();
    return all;
  };
  assert.deepEqual(await statuses(tollgate.rates.limiter("two")), [200, 200, 429]);
  assert.deepEqual(await statuses(tollgate.rates.limiter("two"), 80), [200, 200, 200]);
});

test("the default key of Fastify is the network of the caller", async () => {
  await using server = await startServer();
  await using tollgate = new Tollgate(server.address);
  const app = fastify({ trustProxy: true });
  app.addHook("onRequest", forFastify(tollgate.rates.limiter("two")));
  app.get("/", () => "hello");
  const all = [];
  for (const address of ADDRESSES) {
    all.push((await app.inject({ url: "/", headers: { "x-forwarded-for": address } })).statusCode);
  }
  await app.close();
  assert.deepEqual(all, [200, 200, 429]);
});

test("a prefix out of range is refused", () => {
  for (const prefix of [0, 129, 1.5]) assert.throws(() => addressKey("::1", prefix), RangeError);
});

test("checks that were not decided are logged now and then", async () => {
  await using server = await startServer();
  const lines: string[] = [];
  await using tollgate = new Tollgate(server.address, { log: (line) => lines.push(line) });
  for (let check = 0; check < 5; check += 1) {
    const limiter = tollgate.rates.limiter("a\u202eb", { onFailure: "open" });
    const { allowed, degraded } = await limiter.check("k");
    assert.deepEqual([allowed, degraded], [true, true]);
  }
  const [line = "", ...more] = lines;
  assert.deepEqual(more, []);
  assert.match(
    line,
    /"a\\u\{202e\}b" not checked, the call passes \(fail open\): NOT_FOUND \(POLICY_NOT_FOUND\)/u,
  );
  await assert.rejects(tollgate.rates.limiter("none", { onFailure: "closed" }).check("k"), {
    reason: "POLICY_NOT_FOUND",
  });
  await assert.rejects(tollgate.rates.limiter("two", { onFailure: "open" }).check(""), {
    code: "INVALID_ARGUMENT",
  });

  let logged = 0;
  const log = new CheckLog(() => (logged += 1));
  const error = new TollgateError({ code: "UNAVAILABLE", message: "down" });
  for (let policy = 0; policy < 300; policy += 1) log.undecided(String(policy), "passes", error);
  assert.equal(logged, 101);
});

/**
 * A web service with a rate limit: 20 requests a minute for each caller.
 *
 *   TOLLGATE_SERVER=127.0.0.1:50051 PORT=8080 node web-service.js
 */
import { addressKey, Tollgate } from "@tollgate/client";
import { rateLimit } from "@tollgate/client/express";
import express from "express";

const tollgate = new Tollgate(process.env["TOLLGATE_SERVER"] ?? "127.0.0.1:50051");
const rule = { limits: [{ name: "minute", max: 20, windowMs: 60_000 }] };
// While Tollgate is unreachable, requests pass.
const limiter = tollgate.rates.limiter(rule, { onFailure: "open" });

const app = express();
app.use(rateLimit(limiter, { key: (request) => request.get("x-api-key") ?? addressKey(request.ip ?? "") }));
app.get("/", (_, response) => {
  response.send("hello\n");
});

const server = app.listen(Number(process.env["PORT"] ?? 8080), "127.0.0.1", () => {
  console.log("listening on", server.address());
});
process.once("SIGTERM", () => {
  server.close(() => {
    tollgate.close();
  });
});

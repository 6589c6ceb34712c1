// Plays the README from the package in an empty folder: the first program as ESM, the same in
// CommonJS, the examples, and the types with the strictest settings.
import { execFileSync, spawn } from "node:child_process";
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL("..", import.meta.url));
const binary = process.env.TOLLGATE_BINARY ?? join(here, "../../target/debug/tollgate");
if (!existsSync(binary)) throw new Error(`there is no server program ${binary}: run cargo build`);

const folder = mkdtempSync(join(tmpdir(), "tollgate-package-"));
const started = [];
try {
  await play();
} finally {
  for (const child of started) child.kill("SIGKILL");
  rmSync(folder, { recursive: true });
}

async function play() {
  const { version, devDependencies } = JSON.parse(readFileSync(join(here, "package.json"), "utf8"));
  const archive = `tollgate-client-${version}.tgz`;
  run("npm", ["pack", "--silent", "--pack-destination", folder], here);
  writeFileSync(join(folder, "package.json"), '{ "private": true, "type": "module" }\n');
  const tools = ["typescript", "@types/node", "@types/express", "express", "fastify"];
  const pinned = tools.map((name) => `${name}@${devDependencies[name]}`);
  run("npm", ["install", "--no-audit", "--no-fund", "--silent", `./${archive}`, ...pinned], folder);

  const port = await freePort();
  const address = `127.0.0.1:${port}`;
  started.push(spawn(binary, ["serve", "--listen", address, "--admin", "off"], { stdio: "ignore" }));
  await listening(port);
  const env = { ...process.env, TOLLGATE_SERVER: address };

  const first = block("js");
  check(first.trimEnd().split("\n").length <= 15, "the first program has at most 15 lines");
  writeFileSync(join(folder, "first.mjs"), first);
  check(
    /token \d+n\nCOMPLETED\n/.test(run("node", ["first.mjs"], folder, env)),
    "the first program completes",
  );
  check(/^ALREADY_COMPLETED/.test(run("node", ["first.mjs"], folder, env)), "a second run is refused");

  const required = first
    .replace(/import (.*) from (.*);/, "const $1 = require($2);")
    .replace("snapshot-1", "snapshot-2");
  writeFileSync(join(folder, "first.cjs"), `(async () => {\n${required}\n})();\n`);
  check(/COMPLETED/.test(run("node", ["first.cjs"], folder, env)), "the first program runs as CommonJS");

  cpSync(join(here, "examples"), join(folder, "examples"), { recursive: true });
  writeFileSync(
    join(folder, "types.cts"),
    'import client = require("@tollgate/client");\nexport const made: client.Tollgate = new client.Tollgate("localhost:1");\n',
  );
  writeFileSync(
    join(folder, "types.mts"),
    'import { rateLimit } from "@tollgate/client/fastify";\nimport { rateLimit as grpc } from "@tollgate/client/grpc";\nexport { rateLimit, grpc };\n',
  );
  const strict = ["--strict", "--exactOptionalPropertyTypes", "--skipLibCheck", "true"];
  const options = [
    "--module",
    "nodenext",
    "--target",
    "es2022",
    "--lib",
    "es2023,esnext.disposable",
    "--types",
    "node",
  ];
  const sources = ["examples/device-backend.ts", "examples/web-service.ts", "types.cts", "types.mts"];
  run(join(folder, "node_modules/.bin/tsc"), [...strict, ...options, ...sources], folder);
  check(true, "the examples and the types of both builds compile");

  await example("device-backend.js", ["camera-7"], env, /camera-7 .*: attempt 1, COMPLETED/);
  await example("web-service.js", [], { ...env, PORT: String(await freePort()) }, /listening on/);
}

/** Runs an example until its output matches, then ends it with SIGTERM. */
async function example(file, args, env, expected) {
  const child = spawn("node", [join("examples", file), ...args], {
    cwd: folder,
    env,
    stdio: ["ignore", "pipe", "inherit"],
  });
  started.push(child);
  const exited = new Promise((resolve) => child.once("exit", resolve));
  let output = "";
  for await (const chunk of child.stdout) {
    output += chunk;
    if (expected.test(output)) child.kill("SIGTERM");
  }
  check(expected.test(output) && (await exited) === 0, `examples/${file} runs and ends`);
}

/** Returns the first block of a language in the README. */
function block(language) {
  const readme = readFileSync(join(here, "README.md"), "utf8");
  return readme.split(`\`\`\`${language}\n`)[1].split("```")[0];
}

function run(command, args, cwd, env = process.env) {
  return execFileSync(command, args, { cwd, env, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });
}

function check(holds, what) {
  if (!holds) throw new Error(`it does not hold: ${what}`);
  console.log(`ok: ${what}`);
}

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

async function listening(port) {
  for (;;) {
    const socket = connect(port, "127.0.0.1");
    const connected = await new Promise((resolve) => {
      socket.once("connect", () => resolve(true));
      socket.once("error", () => resolve(false));
    });
    socket.destroy();
    if (connected) return;
    await pause(50);
  }
}

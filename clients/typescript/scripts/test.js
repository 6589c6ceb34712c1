// Compiles the tests and runs them. Arguments: names of test files without `.test.ts`. Default: all.
import { execFileSync, spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";

process.chdir(fileURLToPath(new URL("..", import.meta.url)));
execFileSync(process.execPath, ["node_modules/typescript/bin/tsc", "-p", "tsconfig.out.json"], {
  stdio: "inherit",
});
const wanted = process.argv.slice(2);
const files = readdirSync("test")
  .filter((file) => file.endsWith(".test.ts"))
  .filter((file) => wanted.length === 0 || wanted.includes(file.replace(".test.ts", "")))
  .map((file) => `build/out/test/${file.replace(".ts", ".js")}`);
const flags = ["--test", "--test-concurrency=1", "--test-timeout=60000"];
const { status } = spawnSync(process.execPath, [...flags, ...files], { stdio: "inherit" });
process.exit(status ?? 1);

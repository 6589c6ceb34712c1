#!/usr/bin/env bash
# Installs what the tests need, then runs all of them.
#
#   ./tests/run.sh [arguments of cargo test]
#
# Without arguments the tests of the Redis engine run three times: on one Redis, on a
# Cluster of three primaries and their replicas, and under Sentinels.
#
# Needs cargo. Uses apt-get for redis-server where it is there; Go for grpcurl
# and Python 3 for the example where they are there.
set -euo pipefail
cd "$(dirname "$0")/.."
. tests/tools.sh

prepare_redis
prepare_grpcurl
prepare_python

# A Redis of our own: an unused port, nothing on disk, ended by its number.
. tests/farm.sh
trap stop_farm EXIT
port=$(free_port)
start_redis "$port"
export TOLLGATE_TEST_REDIS="redis://127.0.0.1:$port"

# More at a time than there are cores: many tests wait more than they work.
export RUST_TEST_THREADS="${RUST_TEST_THREADS:-$((2 * $(nproc 2>/dev/null || echo 2)))}"

cargo test --locked "$@"

# The same worlds again where Redis is a Cluster, and where Sentinels watch over it.
if [ $# = 0 ]; then
  start_cluster
  echo "tests/run.sh: on a Cluster"
  TOLLGATE_TEST_REDIS=$cluster_url TOLLGATE_TEST_NODES=$cluster_nodes cargo test --locked --test it redis::
  start_sentinels
  echo "tests/run.sh: under Sentinels"
  TOLLGATE_TEST_REDIS=$sentinel_url TOLLGATE_TEST_NODES=$sentinel_nodes cargo test --locked --test it redis::
fi

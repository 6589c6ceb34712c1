#!/usr/bin/env bash
# Installs what the tests need, then runs all of them.
#
#   ./tests/run.sh [arguments of cargo test]
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
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])' 2>/dev/null || echo 16379)
redis-server --port "$port" --bind 127.0.0.1 --save '' --appendonly no >/dev/null &
redis=$!
trap 'kill "$redis" 2>/dev/null || true' EXIT
until redis-cli -p "$port" ping >/dev/null 2>&1; do
  kill -0 "$redis" || { echo "tests/run.sh: redis-server did not start on port $port" >&2; exit 1; }
  sleep 0.05
done
export TOLLGATE_TEST_REDIS="redis://127.0.0.1:$port"

# More at a time than there are cores: many tests wait more than they work.
export RUST_TEST_THREADS="${RUST_TEST_THREADS:-$((2 * $(nproc 2>/dev/null || echo 2)))}"

cargo test --locked "$@"

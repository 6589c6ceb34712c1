#!/usr/bin/env bash
# Checks the library: lints, types, tests, and the README with the packaged wheel. Exits with 0 only
# if all pass, and with 77 without Python 3.10 or later. TOLLGATE_BINARY names the server program.
set -euo pipefail
folder=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$folder"
source ./prepare.sh
prepare "$folder"

say() { echo "clients/python: $*"; }

binary=${TOLLGATE_BINARY:-../../target/debug/tollgate}
if [[ ! -x $binary ]]; then
    echo "clients/python: there is no server program $binary; run cargo build" >&2
    exit 1
fi
say "ruff check"
"$python" -m ruff check . ../../examples/python
say "ruff format"
"$python" -m ruff format --check . ../../examples/python
say "mypy --strict"
"$python" -m mypy
"$python" -m mypy ../../examples/python/device_backend.py
say "pytest, with the README and the wheel"
"$python" -m pytest --quiet
say "all checks passed"

#!/usr/bin/env bash
# Regenerates src/tollgate/v1/*_pb2.py from proto/. PYTHON needs grpcio-tools, as in pyproject.toml.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
exec "${PYTHON:-.venv/bin/python}" generate.py

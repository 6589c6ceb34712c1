#!/usr/bin/env bash
# Generates the messages and stubs from proto/. The build script does it; it needs no protoc.
set -euo pipefail
cd "$(dirname "$0")/../.."
touch clients/rust/build.rs
cargo build --locked --package tollgate-client

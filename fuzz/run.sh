#!/usr/bin/env bash
# Runs a fuzz target, guided by coverage. Needs stable Rust and a C++ compiler.
#
#   ./fuzz/run.sh TARGET [options of libFuzzer, such as -runs=1000000]
#   ./fuzz/run.sh TARGET FILE    plays an input
set -euo pipefail
target=$1
shift
play=
if [[ $# = 1 && -f $1 ]]; then
    play=$(realpath "$1")
fi
cd "$(dirname "$0")"
# The flags of cargo-fuzz for a build without a sanitizer: stable Rust has no sanitizers.
export RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module \
-Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
-Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares"
triple=$(rustc -vV | sed -n 's/^host: //p')
# With --target the flags do not apply to build scripts, which have no coverage runtime.
cargo build --release --quiet --target "$triple"
mkdir -p "found/$target" artifacts
export TOLLGATE_FUZZ_TARGET=$target
program=target/$triple/release/tollgate-fuzz
if [[ -n $play ]]; then
    exec "$program" "$play"
fi
./corpus.sh unpack
exec "$program" \
    -artifact_prefix=artifacts/ -max_len=4096 -timeout=10 -rss_limit_mb=2048 \
    "$@" "found/$target" "corpus/$target"

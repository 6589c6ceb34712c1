#!/usr/bin/env bash
# Builds the package, and runs the first program of its README in an empty folder.
set -euo pipefail
cd "$(dirname "$0")/../../.."
root=$PWD
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target}
server=${TOLLGATE_BINARY:-$CARGO_TARGET_DIR/debug/tollgate}

folder=$(mktemp -d)
running=
finish() {
    [[ -z $running ]] || kill "$running" 2>/dev/null || true
    rm -rf "$folder"
}
trap finish EXIT

# The build in the empty folder verifies the package.
cargo package --locked --allow-dirty --no-verify --quiet --package tollgate-client
tar -xzf "$CARGO_TARGET_DIR"/package/tollgate-client-*.crate -C "$folder"
package=$(echo "$folder"/tollgate-client-*)
for file in proto/tollgate/v1/admission.proto README.md src/lib.rs; do
    [[ -f $package/$file ]] || { echo "the package has no $file" >&2; exit 1; }
done

# The first block of Rust is the program.
program=$(awk '/^```rust$/ && !seen { inside = 1; seen = 1; next } /^```$/ { inside = 0 } inside' \
    "$package/README.md")
lines=$(echo "$program" | wc -l)
((lines <= 15)) || { echo "the first program has $lines lines, at most 15" >&2; exit 1; }

cargo new --quiet --vcs none "$folder/first"
cd "$folder/first"
# The same versions as in the repository: they are downloaded and built.
cp "$root/Cargo.lock" .
echo "$program" >src/main.rs
cargo add --quiet --offline --path "$package"
cargo add --quiet --offline tokio --features macros,rt-multi-thread

"$server" serve --listen 127.0.0.1:0 --admin off >"$folder/server.log" &
running=$!
for _ in $(seq 100); do
    ! grep -q "Listening on" "$folder/server.log" || break
    sleep 0.1
done
# Port 50051 may be in use.
port=$(sed -n 's/^Listening on .*:\([0-9]*\)$/\1/p' "$folder/server.log")
sed -i "s/50051/$port/" src/main.rs
first=$(cargo run --quiet --offline)
second=$(cargo run --quiet --offline)
echo "$first"
echo "$second"
[[ $first == *"running with token"*"Completed"* && $second == AlreadyCompleted ]]

#!/bin/sh
# Generates src/gen from the protos of the repository and from those in proto/. Needs no network.
set -eu
cd "$(dirname "$0")"
work=build/proto
rm -rf "$work"
mkdir -p "$work"
cp -R ../../proto/. "$work"
cp -R proto/. "$work"
./node_modules/.bin/buf generate "$work"
rm -rf "$work"

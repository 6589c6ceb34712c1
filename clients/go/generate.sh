#!/bin/sh
# Regenerates tollgatepb from proto/ with pinned generators. Needs Go and Python 3.
set -eu
cd "$(dirname "$0")"
tools="$PWD/.tools"
export GOBIN="$tools/bin"
go install google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12
go install google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2
[ -x "$tools/python/bin/python" ] || python3 -m venv "$tools/python"
"$tools/python/bin/pip" --quiet install grpcio-tools==1.85.1 setuptools==80.9.0
rm -rf tollgatepb
PATH="$GOBIN:$PATH" "$tools/python/bin/python" -m grpc_tools.protoc \
    --proto_path=../../proto \
    --go_out=. --go_opt=module=github.com/tollgate/tollgate/clients/go \
    --go-grpc_out=. --go-grpc_opt=module=github.com/tollgate/tollgate/clients/go \
    ../../proto/tollgate/v1/*.proto

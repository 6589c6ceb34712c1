#!/bin/sh
# Checks the Go client: format, static checks, generated code, tests, README and examples.
# Installs pinned tools into .tools. Exits 77 if Go or Python is missing.
set -eu
cd "$(dirname "$0")"

command -v go >/dev/null || { echo "check.sh: go is not installed" >&2; exit 77; }
command -v python3 >/dev/null || { echo "check.sh: python3 is not installed" >&2; exit 77; }
go list -m >/dev/null 2>&1 || { echo "check.sh: $(go version) is too old, see go.mod" >&2; exit 77; }

step() {
    echo "== $*"
}

step "format"
unformatted=$(gofmt -l $(find . -name '*.go' -not -path './.tools/*'))
[ -z "$unformatted" ] || { echo "gofmt would change: $unformatted" >&2; exit 1; }

step "go.mod is tidy"
go mod tidy -diff

step "go vet"
go vet ./...

step "staticcheck"
GOBIN="$PWD/.tools/bin" go install honnef.co/go/tools/cmd/staticcheck@v0.8.2
.tools/bin/staticcheck ./...

step "tollgatepb is generated from proto/"
before=$(cat tollgatepb/*.go | cksum)
./generate.sh
[ "$before" = "$(cat tollgatepb/*.go | cksum)" ] || { echo "tollgatepb was out of date" >&2; exit 1; }

step "tests, README and examples"
go test -race ./...
echo "== all passed"

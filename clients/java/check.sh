#!/usr/bin/env bash
# Checks the Java client: format, lints, Error Prone, tests, examples, README.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

for tool in java javac mvn; do
    if ! command -v "$tool" >/dev/null; then
        echo "clients/java: $tool is not installed; install a JDK 17 and Maven" >&2
        exit 77
    fi
done
export TOLLGATE_BINARY=${TOLLGATE_BINARY:-$PWD/../../target/debug/tollgate}
if [[ ! -x $TOLLGATE_BINARY ]]; then
    echo "clients/java: no server at $TOLLGATE_BINARY; build it or set TOLLGATE_BINARY" >&2
    exit 1
fi

echo "== format"
./format.sh --check
echo "== lints, Error Prone, tests"
mvn -B -ntp verify
echo "== examples"
mvn -q -B dependency:build-classpath -DincludeScope=test -Dmdep.outputFile=target/test.classpath
mkdir -p target/examples
javac -Xlint:all -Werror -proc:none -d target/examples \
    -cp "target/classes:$(<target/test.classpath)" examples/*.java
echo "== README from the artifact"
./readme-test.sh
echo "clients/java: all checks have passed"

#!/usr/bin/env bash
# Formats the sources; with --check only reports which files differ.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
version=1.28.0
jar=.tools/google-java-format-$version-all-deps.jar
if [[ ! -s $jar ]]; then
    mvn -q -B dependency:copy -DoutputDirectory=.tools \
        -Dartifact=com.google.googlejavaformat:google-java-format:$version:jar:all-deps
fi
exports=()
for package in api code file parser tree util; do
    exports+=(--add-exports "jdk.compiler/com.sun.tools.javac.$package=ALL-UNNAMED")
done
action=(--replace)
if [[ ${1:-} == --check ]]; then
    action=(--dry-run --set-exit-if-changed)
fi
find src examples -name '*.java' -print0 |
    xargs -0 java "${exports[@]}" -jar "$jar" "${action[@]}"

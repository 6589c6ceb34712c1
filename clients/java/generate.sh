#!/usr/bin/env bash
# Generates the stubs from proto/ into target/generated-sources. Every build does the same.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
mvn -q -B generate-sources

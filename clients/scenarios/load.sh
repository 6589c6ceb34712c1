#!/usr/bin/env bash
# Measures the client libraries: 2,000 permits that one process holds for a minute, and 100,000
# pairs of AdmitTask and CompleteTask. Prints a row of a table for each.
#
#   load.sh [LANGUAGE…] [-- --permits N --seconds S --lease S --pairs N]
#
# Exit codes: 0 no permit was lost and no memory leaks, 1 otherwise, 2 and 77 as run.sh.
set -euo pipefail
# shellcheck source=clients/scenarios/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

header=(--header)

measure() {
    local options=("${header[@]}" "${arguments[@]}")
    header=()
    (cd "$here" && "$venv/bin/python" -m harness.load "$1" "${options[@]}")
}

read_arguments "$@"
prepare
for_each_language measure "${languages[@]}"

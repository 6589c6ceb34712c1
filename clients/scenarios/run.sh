#!/usr/bin/env bash
# Runs the common scenarios with the runners of the client libraries.
#
#   run.sh [LANGUAGE…] [-- ARGUMENT OF PYTEST…]
#
# Without languages it runs all. It skips a language whose tool chain or runner is missing.
# Exit codes: 0 all scenarios that ran passed, 1 a scenario failed, 2 wrong arguments or no server
# program, 77 no language could be run.
set -euo pipefail
# shellcheck source=clients/scenarios/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# Failed scenarios are run once more, alone: if a machine stalls for a second, the short leases
# of a scenario end. They fail if they fail again.
play() {
    local code=0
    local play=("$venv/bin/python" -m pytest --language "$1" -q "${arguments[@]}"
        -o "cache_dir=$root/target/scenarios/$1")
    cd "$here"
    "${play[@]}" -n "${SCENARIO_WORKERS:-4}" || code=$?
    if [[ $code = 1 ]]; then
        code=0
        echo "scenarios: $1: playing the failed ones again, alone" >&2
        "${play[@]}" -n 0 --last-failed || code=$?
    fi
    return "$code"
}

read_arguments "$@"
prepare
for_each_language play "${languages[@]}"

# shellcheck shell=bash
# What run.sh and load.sh share: languages, tools, the Python environment, and the runners.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
venv=$root/target/tools/scenarios
all=(go java python rust typescript)

# tool_of LANGUAGE: prints the program that its runner needs.
tool_of() {
    case $1 in
        go) echo go ;;
        java) echo mvn ;;
        python) echo python3 ;;
        rust) echo cargo ;;
        typescript) echo npm ;;
        *) return 1 ;;
    esac
}

prepare_python() {
    local wanted=$here/requirements.txt
    mkdir -p "${venv%/*}"
    (
        # One process at a time installs.
        ! command -v flock >/dev/null || flock 9
        if [[ -x $venv/bin/python ]] && cmp -s "$wanted" "$venv/installed.txt"; then
            exit
        fi
        echo "scenarios: making a Python environment" >&2
        python3 -m venv --clear "$venv"
        "$venv/bin/python" -m pip install --quiet --requirement "$wanted"
        cp "$wanted" "$venv/installed.txt"
    ) 9>"$venv.lock"
}

# reason_to_skip LANGUAGE: prints why it cannot be played; nothing if it can.
reason_to_skip() {
    local runner=${TOLLGATE_RUNNER:-$root/clients/$1/runner}
    command -v "$(tool_of "$1")" >/dev/null || { echo "$(tool_of "$1") is not installed"; return; }
    [[ -x $runner ]] || echo "it has no runner clients/$1/runner"
}

# build_runner LANGUAGE: starts its runner once, which builds it.
build_runner() {
    local runner=${TOLLGATE_RUNNER:-$root/clients/$1/runner}
    echo "scenarios: $1: building the runner" >&2
    if ! echo '{"id": 1, "do": "quit"}' | "$runner" >/dev/null; then
        echo "scenarios: $1: the runner does not start" >&2
        return 1
    fi
}

# prepare: ends the script if the server program or a tool is missing.
prepare() {
    local tool server=${TOLLGATE_BINARY:-$root/target/debug/tollgate}
    if [[ ! -x $server ]]; then
        echo "scenarios: there is no server program $server: run \`cargo build\`" >&2
        exit 2
    fi
    for tool in python3 redis-server openssl; do
        command -v "$tool" >/dev/null || { echo "scenarios: $tool is not installed" >&2; exit 77; }
    done
    prepare_python
}

# for_each_language FUNCTION LANGUAGE…: calls the function for each language that can be played,
# and ends the script with the result.
for_each_language() {
    local work=$1 language reason played=0
    local failed=()
    shift
    for language in "$@"; do
        reason=$(reason_to_skip "$language")
        if [[ -n $reason ]]; then
            echo "scenarios: $language: skipped: $reason" >&2
            continue
        fi
        played=$((played + 1))
        build_runner "$language" && "$work" "$language" || failed+=("$language")
    done
    if ((played == 0)); then
        echo "scenarios: no language was played" >&2
        exit 77
    fi
    if ((${#failed[@]})); then
        echo "scenarios: failed: ${failed[*]}" >&2
        exit 1
    fi
    echo "scenarios: $played of $# languages passed" >&2
}

# read_arguments ARGUMENT…: sets `languages` and, from those after `--`, `arguments`.
read_arguments() {
    languages=()
    arguments=()
    while (($#)); do
        if [[ $1 == -- ]]; then
            shift
            # shellcheck disable=SC2034  # read by the scripts that source this file
            arguments=("$@")
            break
        fi
        tool_of "$1" >/dev/null || { echo "unknown language: $1; known: ${all[*]}" >&2; exit 2; }
        languages+=("$1")
        shift
    done
    ((${#languages[@]})) || languages=("${all[@]}")
}

#!/usr/bin/env bash
# Checks the client libraries: runs the checks of each language, and then the common scenarios with
# its library.
#
#   ./tests/clients.sh [--workspace-tested] [LANGUAGE…]    go, java, python, rust, typescript
#
# Without languages it checks all. Runs as many jobs at a time as there are cores, but at least two,
# because most scenarios wait. The output of a job is printed when it ends; target/clients/ keeps
# it.
#
# --workspace-tested: `cargo test --workspace` has passed, so that the lints and tests of clients/rust,
# a member of the workspace, are not repeated.
#
# Skips a language whose tool chain is missing, or whose packages cannot be downloaded, with a
# message. With TOLLGATE_TEST_REQUIRE_TOOLS it fails instead.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

rust_checks=
if [ "${1:-}" = --workspace-tested ]; then
  rust_checks=packaged
  shift
fi
# The slowest ones first, so that no core is idle at the end.
languages=(java go rust typescript python)
if [ $# != 0 ]; then
  languages=("$@")
fi
for language in "${languages[@]}"; do
  case $language in
    go | java | python | rust | typescript) ;;
    *) echo "tests/clients.sh: unknown language $language" >&2 && exit 2 ;;
  esac
done

target=${CARGO_TARGET_DIR:-$PWD/target}
export TOLLGATE_BINARY=$target/debug/tollgate
logs=$target/clients
mkdir -p "$logs"
# The features of `cargo test --workspace`, so that nothing is compiled again after it.
cargo build --locked --workspace --bin tollgate --example runner

# can_download LANGUAGE: whether its registry answers.
can_download() {
  case $1 in
    go) (cd clients/go && go mod download) ;;
    java) mvn -B -q -ntp -f clients/java/pom.xml dependency:resolve ;;
    python) python3 -m pip download --quiet --no-deps --dest "$target/tools/probe" iniconfig ;;
    typescript) npm view --silent typescript version ;;
    *) true ;;
  esac >/dev/null
}

# The two kinds of jobs. Each ends with 77 if tools are missing.

checks() {
  can_download "$1" || return 77
  case $1 in
    rust) clients/rust/check.sh $rust_checks ;;
    *) "clients/$1/check.sh" ;;
  esac
}

scenarios() {
  clients/scenarios/run.sh "$1"
}

waiting=()
for language in "${languages[@]}"; do
  waiting+=("checks $language" "scenarios $language")
done
declare -A running=() passed=()
failed=()

# is_ready JOB: scenarios use what the checks of their language have built.
is_ready() {
  [[ $1 == checks* || -n ${passed[checks ${1#* }]:-} ]]
}

# start_next: starts the first job that is ready; fails if there is none.
start_next() {
  local index job
  for index in "${!waiting[@]}"; do
    job=${waiting[index]}
    if is_ready "$job"; then
      unset "waiting[index]"
      echo "tests/clients.sh: ${job#* }: ${job% *} started"
      $job >"$logs/${job/ /-}.log" 2>&1 </dev/null &
      running[$!]=$job
      return
    fi
  done
  return 1
}

# ended JOB CODE
ended() {
  local job=$1 code=$2 index
  local what="${job#* }: ${job% *}"
  echo "tests/clients.sh: $what:"
  cat "$logs/${job/ /-}.log"
  case $code in
    0)
      echo "tests/clients.sh: $what passed"
      passed[$job]=yes
      return
      ;;
    77)
      echo "tests/clients.sh: $what skipped, tools or packages are missing"
      [[ -z ${TOLLGATE_TEST_REQUIRE_TOOLS:-} ]] || failed+=("$what: tools are missing")
      ;;
    *) failed+=("$what: exit code $code") ;;
  esac
  # Without its checks, the scenarios of a language are not played.
  for index in "${!waiting[@]}"; do
    [[ ${waiting[index]} != "scenarios ${job#* }" ]] || unset "waiting[index]"
  done
}

# Each job is a process group, which ends with this script.
set -m
trap 'for job in "${!running[@]}"; do kill -- "-$job" 2>/dev/null || true; done' EXIT
cores=$(nproc 2>/dev/null || echo 2)
limit=$((cores > 2 ? cores : 2))
while ((${#waiting[@]} + ${#running[@]})); do
  while ((${#running[@]} < limit)) && start_next; do :; done
  code=0
  wait -n -p job || code=$?
  name=${running[$job]}
  unset "running[$job]"
  ended "$name" "$code"
done

if ((${#failed[@]})); then
  printf 'tests/clients.sh: failed: %s\n' "${failed[@]}" >&2
  exit 1
fi
echo "tests/clients.sh: passed"

#!/usr/bin/env bash
# Checks the client libraries: the checks of each language, then the common scenarios.
#
#   ./tests/clients.sh [LANGUAGE…]    go, java, python, rust, typescript; all by default
#
# Skips a language whose tool chain is missing, or whose packages cannot be downloaded, with a
# message. With TOLLGATE_TEST_REQUIRE_TOOLS it fails instead.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

languages=("$@")
if [ $# = 0 ]; then
  languages=(go java python rust typescript)
fi

cargo build --locked --bin tollgate
target=${CARGO_TARGET_DIR:-$PWD/target}
export TOLLGATE_BINARY=$target/debug/tollgate

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

# skip WHAT WHY: says that a part is not checked.
skip() {
  if [ -n "${TOLLGATE_TEST_REQUIRE_TOOLS:-}" ]; then
    echo "tests/clients.sh: $1: $2, and TOLLGATE_TEST_REQUIRE_TOOLS is set" >&2
    exit 1
  fi
  echo "tests/clients.sh: $1: skipped, $2"
}

checked=()
for language in "${languages[@]}"; do
  echo "tests/clients.sh: $language: its own checks"
  case $language in
    go | java | python | rust | typescript) ;;
    *) echo "tests/clients.sh: unknown language $language" >&2 && exit 2 ;;
  esac
  if ! can_download "$language"; then
    skip "$language" "its tools or packages are missing"
    continue
  fi
  code=0
  "clients/$language/check.sh" || code=$?
  case $code in
    0) checked+=("$language") ;;
    77) skip "$language" "its tools are missing" ;;
    *) echo "tests/clients.sh: $language: failed" >&2 && exit 1 ;;
  esac
done

# Two languages at a time: most scenarios wait.
halves=("" "")
for index in "${!checked[@]}"; do
  halves[index % 2]+=" ${checked[index]}"
done
log=$target/scenarios.log

# play LANGUAGES: plays their scenarios, if there are languages.
play() {
  local languages
  read -ra languages <<<"$1"
  [ ${#languages[@]} = 0 ] || clients/scenarios/run.sh "${languages[@]}"
}

echo "tests/clients.sh: common scenarios:${halves[0]},${halves[1]}"
play "${halves[1]}" >"$log" 2>&1 &
codes=(0 0)
play "${halves[0]}" || codes[0]=$?
wait $! || codes[1]=$?
cat "$log"
for code in "${codes[@]}"; do
  case $code in
    0) ;;
    77) skip "common scenarios" "their tools are missing" ;;
    *) exit 1 ;;
  esac
done

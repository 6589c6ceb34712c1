# Installs the tools of the tests, unless they are installed. tests/run.sh sources this file and
# calls prepare_grpcurl, prepare_python and prepare_redis; .ci/run calls prepare_deny.
# redis-server and openssl are system packages; all others go to target/tools.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
tools=$root/target/tools

# grpcurl runs the documented commands. Without Go the test searches the PATH.
prepare_grpcurl() {
    local version=v1.9.4
    local folder=$tools/grpcurl-$version
    if [[ ! -x $folder/grpcurl ]]; then
        command -v go >/dev/null || return 0
        quietly "building grpcurl" env GOBIN="$folder" \
            go install "github.com/fullstorydev/grpcurl/cmd/grpcurl@$version" || return
    fi
    export TOLLGATE_TEST_GRPCURL=$folder/grpcurl
}

# A virtual environment for examples/python. Without python3 its test is skipped.
prepare_python() {
    local venv=$tools/venv wanted=$root/examples/python/requirements.txt
    local python=$venv/bin/python
    if [[ ! -x $python ]] || ! cmp -s "$wanted" "$venv/installed.txt"; then
        command -v python3 >/dev/null || return 0
        # Debian has this module in a separate package.
        python3 -c 'import ensurepip, venv' 2>/dev/null || install_package python3-venv || return
        quietly "making a Python environment" python3 -m venv --clear "$venv" || return
        quietly "installing the packages of examples/python" \
            "$python" -m pip install --requirement "$wanted" || return
        cp "$wanted" "$venv/installed.txt"
    fi
    export TOLLGATE_TEST_PYTHON=$python
}

prepare_redis() {
    command -v redis-server >/dev/null || install_package redis-server || return
    # Creates the certificates of the TLS tests.
    command -v openssl >/dev/null || install_package openssl
}

# cargo-deny checks the dependencies. An unoptimized build is fast enough and takes half the time.
prepare_deny() {
    local version=0.20.2
    local folder=$tools/cargo-deny-$version
    if [[ ! -x $folder/bin/cargo-deny ]]; then
        quietly "building cargo-deny" cargo install --quiet --locked --debug \
            --root "$folder" --target-dir "$folder/target" --version "$version" cargo-deny || return
        rm -r "$folder/target"
    fi
    PATH=$folder/bin:$PATH
}

# install_package NAME: installs it with apt-get; fails without apt-get or root.
install_package() {
    if ! command -v apt-get >/dev/null || [[ $EUID -ne 0 ]]; then
        echo "tests: $1 is missing; please install it (Debian: apt-get install $1)" >&2
        return 1
    fi
    quietly "reading package lists" apt-get update || return
    quietly "installing $1" \
        env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "$1"
}

# quietly WHAT COMMAND…: shows the command's output only if the command fails.
quietly() {
    local what=$1 output
    shift
    echo "tests: $what" >&2
    if ! output=$("$@" 2>&1); then
        printf 'tests: %s failed: %s\n%s\n' "$what" "$*" "$output" >&2
        return 1
    fi
}

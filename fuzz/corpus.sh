#!/usr/bin/env bash
# The inputs of the fuzz targets: corpus.tar.gz, which contains a folder for each target.
#
#   ./fuzz/corpus.sh unpack               unpacks the archive to fuzz/corpus/
#   ./fuzz/corpus.sh add TARGET FILE…     adds inputs to the archive, under the names of the files
#
# The archive depends on the names and the contents of the inputs only. Needs GNU tar.
set -euo pipefail

usage() {
    echo "usage: $0 unpack | add TARGET FILE…" >&2
    exit 2
}

unpack() {
    rm -rf corpus
    mkdir corpus
    tar -xzf corpus.tar.gz -C corpus
}

pack() {
    (cd corpus && find . -type f -printf '%P\n' | LC_ALL=C sort |
        tar -c --files-from=- --format=ustar --mtime=@0 --owner=0 --group=0 --numeric-owner \
            --mode=644) | gzip -9n >corpus.tar.gz
}

caller=$PWD
cd "$(dirname "$0")"
folder=$PWD
case ${1:-} in
    unpack) unpack ;;
    add)
        [[ $# -ge 3 ]] || usage
        target=$2
        unpack
        [[ -d corpus/$target ]] || { echo "$0: unknown target $target" >&2; exit 2; }
        (cd "$caller" && cp -- "${@:3}" "$folder/corpus/$target/")
        pack
        ;;
    *) usage ;;
esac

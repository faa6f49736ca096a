# shellcheck shell=sh disable=SC2034
# Common part of the tests of stages and risks of GPUs: folders of the build and the tree, a
# folder for reports that is removed at the end, and the exit status. Sourced.
build=${MKV_BUILD_DIR:-$PWD}
tree=$(cd "$(dirname "$0")/../.." && pwd)
name=$(basename "$0")
out=$(mktemp -d "${TMPDIR:-/tmp}/${name%.sh}.XXXXXX")
trap 'rm -rf "$out"' EXIT

die() {
    echo "$name: $*" >&2
    exit 1
}

if ldd "$build/.libs/libuct_mori.so" | grep -q libasan; then
    echo "UCX's own programs are not started here with AddressSanitizer's runtime"
    exit 77
fi

# The report begins with SIMULATED, has each of these and no stage that did not run.
reports() { # FILE NOT-WANTED PATTERN...
    report=$1 unwanted=$2
    shift 2

    head -n 1 "$report" | grep -q '^SIMULATED' || die "the report does not begin with SIMULATED"
    for what in "$@"; do
        grep -q -e "$what" "$report" || die "the report has no '$what': $(cat "$report")"
    done
    if grep -E "$unwanted" "$report"; then
        die "stages did not run"
    fi
}

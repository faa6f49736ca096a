#!/bin/sh
# Libraries of two versions on the wire together: kv_versions with today's library and with
# earlier ones, which are built here from the history of the sources, each as the one that
# begins and as the other one. In the build folder; skipped where there is no such history.
set -u
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../../.." && pwd)
build=${MKV_BUILD_DIR:-$PWD}
today=$build/test/integration/kv/kv_versions
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
UCX_TLS=tcp
export UCX_TLS
# shellcheck source=test/support/environment.sh
. "$here/../../support/environment.sh"

skip() {
    echo "kv_versions.sh: $*"
    exit 77
}

of_history() {
    git -c safe.directory="$source" -C "$source" "$@"
}

cc=gcc
command -v gcc >/dev/null || skip "no gcc for earlier versions"
! command -v ccache >/dev/null || cc="ccache gcc"

# The library goes into the program: wherever libraries are looked for, it is that one.
make_old() { # COMMIT KNOWS
    mkdir "$work/$1" && cd "$work/$1" || return 1
    of_history archive "$1" src | tar -x || return 1
    # shellcheck disable=SC2016
    printf '%s\n' src/*.c src/*/*.c | xargs -P "$(nproc)" -I{} sh -c '
        $0 -std=gnu11 -O0 -w -D_GNU_SOURCE -I. -Isrc -c "$1" -o "$(echo "$1" | tr / _).o"
    ' "$cc" {} || return 1
    gcc -O0 -Isrc -DKV_VERSIONS_KNOWS="$2" "$here/kv_versions.c" ./*.o -o kv_versions \
        -lucp -lucs -lpthread
}

failures=0
must() { # WHAT COMMAND...
    what=$1
    shift
    if "$@"; then
        echo "PASS: $what"
    else
        echo "FAIL: $what"
        failures=$((failures + 1))
        return 1
    fi
}

# The one that knows less must say so where it is taken for today's.
is_seen() { # PROGRAM
    ! "$today" "$1" 3 2>"$work/control" && grep -q 'not so: ' "$work/control"
}

# Commits are named by what came with the next one: their hashes do not outlive a history
# that is written anew, and a library that is not found is not tested.
before() { # WORD of src/wire/wire.h
    of_history rev-parse -q --verify \
        "$(of_history log --reverse --format=%H "-S$1" -- src/wire/wire.h | head -n 1)^"
}

with() { # WORD KNOWS WHAT
    commit=$(before "$1")
    must "the history has $3" test -n "$commit" || return
    must "$3 is built" make_old "$commit" "$2"
    must "today's begins, with $3" "$today" "$work/$commit/kv_versions" "$2"
    must "$3 begins, with today's" "$work/$commit/kv_versions" "$today" "$2"
    must "control: $3 is not taken for today's" is_seen "$work/$commit/kv_versions"
}

[ -e "$source/.git" ] || skip "no history of the sources in $source"
command -v git >/dev/null || skip "no git"
[ "$(of_history rev-parse --is-shallow-repository)" = false ] ||
    skip "no whole history of the sources in $source"
must "today's with today's" "$today" "$today" 3
with MKV_FEATURE_DONE_DATA 0 "version 2.0 of the wire"
with MKV_FEATURE_SUMS 1 "version 2.1 before sums, openings, told posts and late keys"
with MKV_FEATURE_STAGE 2 "version 2.1 before staging"
[ $failures = 0 ]

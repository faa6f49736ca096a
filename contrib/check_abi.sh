#!/bin/bash
# Compare the binary interface of libmorikv with that of the last release, which --update
# writes to test/abi/libmorikv.abi when a release is made. Before the first release there is
# no such file, and the interface may change freely. docs/dev/abi.md has the rules.
#
#   contrib/check_abi.sh [TREE [BUILD]]     (build-gcc of the tree)
#   contrib/check_abi.sh --update
# DO-14
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib_check.sh"

build=${2:-}
# callers see the types of the public header only
abidw_options=(--drop-private-types --drop-undefined-syms --no-corpus-path
    --no-comp-dir-path --no-show-locs --no-elf-needed --no-architecture
    --no-parameter-names)

public_header() { # DIR
    mkdir -p "$work/headers"
    cp "$1/src/morikv.h" "$work/headers/"
    echo "$work/headers"
}

describe() { # DIR LIBRARY
    abidw "${abidw_options[@]}" --headers-dir "$(public_header "$1")" "$2"
}

check_library() { # DIR LIBRARY
    describe "$1" "$2" >"$work/now.abi" || return 1
    # this type belongs to UCX, which may add kinds of memory
    printf '[suppress_type]\nname = ucs_memory_type\n' >"$work/suppress"
    abidiff --no-show-locs --suppressions "$work/suppress" "$1/test/abi/libmorikv.abi" "$work/now.abi" || {
        echo "the binary interface has changed; run --update if that is intended"
        return 1
    }
}

check() { # DIR
    local dir=$1 rc=0 library=${build:-$1/build-gcc}/.libs/libmorikv.so

    [ -e "$dir/test/abi/libmorikv.abi" ] || {
        echo "no test/abi/libmorikv.abi: nothing is released that could be compared"
        return 0
    }
    [ -e "$library" ] || {
        echo "there is no $library to compare"
        return 77
    }
    work=$(mktemp -d)
    check_library "$dir" "$library" || rc=1
    rm -rf "$work"
    return $rc
}

update() { # DIR
    work=$(mktemp -d)
    mkdir -p "$1/test/abi"
    describe "$1" "$1/build-gcc/.libs/libmorikv.so" >"$1/test/abi/libmorikv.abi"
    rm -rf "$work"
}

library() { # HEADER BODY
    mkdir -p "$sample/build-gcc/.libs" "$sample/src"
    printf '%s\n' "$1" >"$sample/src/morikv.h"
    printf '#include "morikv.h"\n%s\n' "$2" |
        gcc -g -shared -fPIC -I "$sample/src" -x c -o "$sample/build-gcc/.libs/libmorikv.so" -
}

kept() {
    local struct='typedef struct mkv_s { unsigned long size; int a; int b; } mkv_s_t;'
    library "$struct int mkv_f(mkv_s_t *s); int mkv_g(void);" \
        'int mkv_f(mkv_s_t *s) { return s->b; } int mkv_g(void) { return 1; }'
    update "$sample"
}

samples() {
    local saved=$build
    build=
    kept
    good 'an interface that is as it was kept'
    kept
    library 'typedef struct mkv_s { unsigned long size; int a; int b; } mkv_s_t; int mkv_f(mkv_s_t *s); int mkv_g(void);' \
        'int mkv_f(mkv_s_t *s) { return s->a + s->b; } int mkv_g(void) { return 2; }
         static struct { int x; } own; int *mkv_own(void) __attribute__((visibility("hidden"))); int *mkv_own(void) { return &own.x; }'
    good 'other insides'
    kept
    library 'typedef struct mkv_s { unsigned long size; int b; int a; } mkv_s_t; int mkv_f(mkv_s_t *s); int mkv_g(void);' \
        'int mkv_f(mkv_s_t *s) { return s->b; } int mkv_g(void) { return 1; }'
    bad 'members that have changed places' 'if that is intended'
    kept
    library 'typedef struct mkv_s { unsigned long size; int a; int b; int c; int d; } mkv_s_t; int mkv_f(mkv_s_t *s); int mkv_g(void);' \
        'int mkv_f(mkv_s_t *s) { return s->b; } int mkv_g(void) { return 1; }'
    bad 'members more' 'if that is intended'
    kept
    library 'typedef struct mkv_s { unsigned long size; int a; int b; } mkv_s_t; int mkv_f(mkv_s_t *s);' \
        'int mkv_f(mkv_s_t *s) { return s->b; }'
    bad 'a function that is gone' 'mkv_g'
    kept
    rm "$sample/test/abi/libmorikv.abi"
    library 'int mkv_h(void);' 'int mkv_h(void) { return 1; }'
    good 'an interface before the first release'
    build=$saved
}

tool abidw
tool abidiff
tool gcc
if [ "${1:-}" = --update ]; then
    update "$(dirname "$here")"
else
    main "$@"
fi

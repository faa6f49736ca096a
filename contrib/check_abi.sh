#!/bin/bash
# The binary interface of libmorikv is the one that is kept in test/abi/libmorikv.abi, and
# the header that is kept for the version under way says what src/morikv.h says. What is
# meant to change is written down by --update, and read by whoever reviews it: docs/abi.md.
#
#   contrib/check_abi.sh [TREE [BUILD]]     (build-gcc of the tree)
#   contrib/check_abi.sh --update
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib_check.sh"

build=${2:-}
# the caller's types are in the public header; the sources' own are nobody's business
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

# What a compiler sees of a header: neither comments nor blanks.
code_of() { # HEADER
    gcc -fpreprocessed -dD -E -P -x c "$1" 2>/dev/null | tr -s '[:space:]' '\n'
}

version_of() { # HEADER
    awk '$2 == "MKV_API_MAJOR" { major = $3 } $2 == "MKV_API_MINOR" { minor = $3 }
         END { print major "." minor }' "$1"
}

check_header() { # DIR
    local kept
    kept=test/abi/$(version_of "$1/src/morikv.h")/morikv.h
    [ -e "$1/$kept" ] || {
        echo "$kept is not there: the header of the version that src/morikv.h is of"
        return 1
    }
    diff <(code_of "$1/$kept") <(code_of "$1/src/morikv.h") || {
        echo "src/morikv.h is not what $kept has kept: is the change meant? Then --update"
        return 1
    }
}

check_library() { # DIR LIBRARY
    describe "$1" "$2" >"$work/now.abi" || return 1
    # UCX's own, which may know more kinds of memory tomorrow
    printf '[suppress_type]\nname = ucs_memory_type\n' >"$work/suppress"
    abidiff --no-show-locs --suppressions "$work/suppress" "$1/test/abi/libmorikv.abi" "$work/now.abi" || {
        echo "the binary interface has changed: is that meant? Then --update"
        return 1
    }
}

check() { # DIR
    local dir=$1 rc=0 library=${build:-$1/build-gcc}/.libs/libmorikv.so

    work=$(mktemp -d)
    check_header "$dir" || rc=1
    if [ ! -e "$library" ]; then
        echo "there is no $library to compare"
        [ $rc != 0 ] || rc=77
    else
        check_library "$dir" "$library" || rc=1
    fi
    rm -rf "$work"
    return $rc
}

update() { # DIR
    local dir=$1 kept
    work=$(mktemp -d)
    kept=$dir/test/abi/$(version_of "$dir/src/morikv.h")
    mkdir -p "$kept"
    cp "$dir/src/morikv.h" "$kept/morikv.h"
    describe "$dir" "$dir/build-gcc/.libs/libmorikv.so" >"$dir/test/abi/libmorikv.abi"
    rm -rf "$work"
}

library() { # HEADER BODY
    mkdir -p "$sample/build-gcc/.libs" "$sample/src" "$sample/test/abi/0.1"
    printf '#define MKV_API_MAJOR 0\n#define MKV_API_MINOR 1\n%s\n' "$1" >"$sample/src/morikv.h"
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
    bad 'members that have changed places' 'is that meant'
    kept
    library 'typedef struct mkv_s { unsigned long size; int a; int b; int c; int d; } mkv_s_t; int mkv_f(mkv_s_t *s); int mkv_g(void);' \
        'int mkv_f(mkv_s_t *s) { return s->b; } int mkv_g(void) { return 1; }'
    bad 'members more' 'is that meant'
    kept
    library 'typedef struct mkv_s { unsigned long size; int a; int b; } mkv_s_t; int mkv_f(mkv_s_t *s);' \
        'int mkv_f(mkv_s_t *s) { return s->b; }'
    bad 'a function that is gone' 'mkv_g'
    kept
    rm "$sample/build-gcc/.libs/libmorikv.so"
    echo '#define MKV_NEW 1' >>"$sample/src/morikv.h"
    bad 'a header that has changed' 'MKV_NEW'
    kept
    rm -r "$sample/test/abi/0.1"
    bad 'a version without its header' 'is not there'
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

#!/bin/bash
# What the two libraries export: the library what its header declares and its map names,
# no more and no less; the module nothing. The module must need libuct and libucs, or
# UCX's loader would give it other copies.
#
#   contrib/check_symbols.sh [TREE [BUILD]]     (build-gcc of the tree)
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib_check.sh"

build=${2:-}

declared() { # HEADER
    sed -e 's|//.*||' "$1" | tr '\n' ' ' | sed -e 's|/\*|\x01|g; s|\*/|\x02|g; s|\x01[^\x02]*\x02||g' |
        tr ';{}' '[\n*]' | sed -n 's/^[^(]*[ *]\(mkv_[a-z0-9_]*\)(.*)[^(]*$/\1/p' |
        sort -u
}

mapped() { # MAP
    sed -e 's|/\*.*\*/||; s|#.*||' "$1" | tr '{};' '[\n*]' |
        sed -n 's/^ *\(global: *\)\{0,1\}\(mkv_[a-z0-9_*]*\) *$/\2/p' | sort -u
}

exported() { # LIBRARY
    nm -D --defined-only "$1" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort -u
}

differ() { # WHAT LEFT RIGHT
    local difference
    difference=$(diff <(echo "$2") <(echo "$3") | grep '^[<>]')
    [ -z "$difference" ] || {
        echo "$1:"
        echo "$difference"
        return 1
    }
}

check_module() { # FILE
    local names rc=0 needed
    names=$(exported "$1")
    [ -z "$names" ] || {
        echo "the module exports:" "$names"
        rc=1
    }
    for needed in libuct libucs; do
        readelf -d "$1" | grep -q "NEEDED.*$needed" || {
            echo "the module does not need $needed"
            rc=1
        }
    done
    return $rc
}

check() { # DIR
    local dir=$1 names rc=0 libs=${build:-$1/build-gcc}/.libs

    if [ -z "$(find "$dir/src" -name "*.c")" ] && [ ! -e "$dir/src/libmorikv.map" ]; then
        echo "the library has no sources yet"
        return 77
    fi
    [ -e "$dir/src/libmorikv.map" ] || {
        echo "src/libmorikv.map is not there"
        return 1
    }
    names=$(declared "$dir/src/morikv.h")
    differ 'declared in morikv.h (<) and named in libmorikv.map (>)' \
        "$names" "$(mapped "$dir/src/libmorikv.map")" || rc=1
    [ ! -e "$libs/libmorikv.so" ] ||
        differ 'declared in morikv.h (<) and exported by libmorikv.so (>)' \
            "$names" "$(exported "$libs/libmorikv.so" | grep -v '^MORIKV_')" || rc=1
    [ ! -e "$libs/libuct_mori.so" ] || check_module "$libs/libuct_mori.so" || rc=1
    return $rc
}

library() { # NAME SOURCE [OPTION...]
    local name=$1 text=$2
    shift 2
    mkdir -p "$sample/build-gcc/.libs"
    gcc -shared -fPIC -x c -o "$sample/build-gcc/.libs/$name" "$@" - <<<"$text"
}

contract() {
    printf 'int mkv_a(int (*f)(void *arg));\nconst char *\nmkv_b(void);\n/* mkv_c() */\n' | write src/morikv.h
    printf 'MORIKV_0 {\n    global:\n        mkv_a;\n        mkv_b;\n    local: *;\n};\n' |
        write src/libmorikv.map
}

samples() {
    local saved=$build
    build=

    contract
    good 'a header and a map that agree'
    contract
    echo 'int mkv_new(void);' >>"$sample/src/morikv.h"
    bad 'a function the map forgot' mkv_new
    contract
    library libmorikv.so 'int mkv_a(void){return 0;} int mkv_b(void){return 0;} int mkv_inner(void){return 0;}'
    bad 'a library that exports more' mkv_inner
    contract
    library libmorikv.so 'int mkv_a(void){return 0;}'
    bad 'a library that forgot one' mkv_b
    contract
    library libuct_mori.so 'int muct_leak(void){return 0;}' -Wl,--no-as-needed -luct -lucs
    bad 'a module that exports' muct_leak
    contract
    library libuct_mori.so 'static int a;' -Wl,--as-needed -lc
    bad 'a module without its libraries' 'does not need libuct'
    build=$saved
}

tool nm
tool gcc
main "$@"

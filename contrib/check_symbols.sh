#!/bin/bash
# Exports of the libraries. The library exports exactly the names of its header and of its
# map; the module's loader exports UCX's entry, and a core the loader's, nothing else. Loader
# and cores need no library of UCX, which would load a second UCX. The loader has no reference
# to UCX. A core's references are weak, it has no constructors, and each symbol of
# muct_ucx_symbols.h is used by a core.
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

check_module() { # FILE ENTRY
    local names rc=0
    differ "$(basename "$1") should export (<) and exports (>)" "$2" "$(exported "$1")" || rc=1
    ! readelf -d "$1" | grep -E 'NEEDED.*libuc[pstm]' || {
        echo "$(basename "$1") needs a library of UCX"
        rc=1
    }
    names=$(nm -D --undefined-only "$1" | awk '$1 == "U" && $2 ~ /^uc[pstm]_/ { print $2 }')
    [ -z "$names" ] || {
        echo "$(basename "$1") has references to UCX that are not weak:" "$names"
        rc=1
    }
    return $rc
}

references() { # FILE...
    local file
    for file in "$@"; do
        nm -D --undefined-only "$file" | awk '$2 ~ /^uc[pstm]_/ { print $2 }'
    done | sort -u
}

check_cores() { # LIST FILE...
    local list=$1 file rc=0 size
    shift
    for file in "$@"; do
        check_module "$file" muct_core_register || rc=1
        size=$(readelf -d "$file" | awk '/INIT_ARRAYSZ/ { print $3 }')
        # one entry is the compiler's own
        [ "${size:-0}" -le 8 ] || readelf -d "$file" | grep libasan >/dev/null || {
            echo "$(basename "$file") has constructors, which run before it is bound to UCX"
            rc=1
        }
    done
    differ 'named in muct_ucx_symbols.h (<) and taken by the cores (>)' \
        "$(sed -n 's/^MUCT_UCX_SYMBOL(\(uc.*\));/\1/p' "$list" | sort -u)" "$(references "$@")" || rc=1
    return $rc
}

check() { # DIR
    local dir=$1 names rc=0 libs=${build:-$1/build-gcc}/.libs
    local -a cores

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
    [ ! -e "$libs/libuct_mori.so" ] ||
        check_module "$libs/libuct_mori.so" ucs_module_global_init || rc=1
    cores=("$libs"/mori-core-*.so)
    [ ! -e "${cores[0]}" ] ||
        check_cores "$dir/ucx_plugin/muct_ucx_symbols.h" "${cores[@]}" || rc=1
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

core() { # SYMBOL-IN-LIST [SOURCE]
    write ucx_plugin/muct_ucx_symbols.h <<<"MUCT_UCX_SYMBOL($1);"
    library mori-core-1.23.so "void ucs_a(void) __attribute__((weak)); void *a = ucs_a;
        void muct_core_register(void) {} ${2:-}" \
        -Wl,--version-script=<(echo '{ global: muct_core_register; local: *; };')
}

samples() {
    local saved=$build entry='int ucs_module_global_init(void){return 0;}'
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
    library libuct_mori.so "$entry int muct_leak(void){return 0;}"
    bad 'a loader that exports' muct_leak
    contract
    library libuct_mori.so "$entry" -Wl,--no-as-needed -lucs
    bad 'a loader that needs UCX' 'needs a library of UCX'
    contract
    library libuct_mori.so "$entry void ucs_a(void); void *a = ucs_a;"
    bad 'a loader that refers to UCX' 'not weak: ucs_a'
    contract
    core ucs_a 'void ucs_b(void); void *b = ucs_b;'
    bad 'a core with a strong reference' 'not weak: ucs_b'
    contract
    core ucs_a '__attribute__((constructor)) static void start(void) {}'
    bad 'a core that starts by itself' 'has constructors'
    contract
    core ucs_b
    bad 'a list with a symbol that no core takes' ucs_b
    contract
    library libuct_mori.so "$entry"
    core ucs_a
    good 'a loader and a core'
    build=$saved
}

tool nm
tool gcc
main "$@"

#!/bin/bash
# Every header compiles alone, whatever was included before it: as C by gcc and clang,
# as C++ too where users or UCX's C++ tests may include it.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib_check.sh"

warnings="-Wall -Wextra -Wno-unused-function -Wno-unused-const-variable -Werror"
packages="$(pkg-config --cflags ucx 2>/dev/null) $(pkg-config --cflags check 2>/dev/null)"

one_header() { # DIR PATH
    local dir=$1 path=$2 rc=0 compiler unit
    local flags="-fsyntax-only -I$dir -I$dir/src -I$dir/ucx_plugin -I$empty -D_GNU_SOURCE -D__HIP_PLATFORM_AMD__"
    flags="$flags $packages"
    # twice: the guard is part of the contract
    unit=$(printf '#include "%s"\n#include "%s"\nint alone;' "$dir/$path" "$dir/$path")

    for compiler in gcc clang; do
        # shellcheck disable=SC2086
        $compiler -x c -std=gnu11 $flags $warnings - <<<"$unit" || {
            echo "$path does not compile alone as C with $compiler"
            rc=1
        }
    done
    case $path in
    src/morikv.h | ucx_plugin/base/* | ucx_plugin/xgmi/copy/xgmi_kernel.h)
        # shellcheck disable=SC2086
        clang++ -x c++ -std=c++17 $flags $warnings - <<<"$unit" || {
            echo "$path does not compile alone as C++"
            rc=1
        }
        ;;
    esac
    return $rc
}

# config.h of any machine: headers may rely on the system extensions alone.
empty=$(mktemp -d)
trap 'rm -rf "$empty"' EXIT
touch "$empty/config.h"

check() { # DIR
    export -f one_header
    export warnings packages empty
    # shellcheck disable=SC2016
    sources "$1" h | xargs -r -P "$(nproc)" -I {} bash -c 'one_header "$1" "$2"' bash "$1" {}
}

samples() {
    echo 'size_t alone_length(void);' | write src/bad.h
    bad 'a header that forgot stddef.h' 'src/bad.h does not compile alone as C with gcc'
    echo 'struct alone { int a; };' | write src/bad.h
    bad 'a header without a guard' src/bad.h
    {
        echo '#pragma once'
        echo 'static inline int *alone(void *class) { return class; }'
    } | write src/morikv.h
    bad 'a public header that is not C++' 'src/morikv.h does not compile alone as C++'
    {
        echo '#pragma once'
        echo '#include <stddef.h>'
        echo 'size_t alone_length(void);'
    } | write src/morikv.h
    good 'a header that stands alone'
}

tool gcc
tool clang
tool clang++
main "$@"

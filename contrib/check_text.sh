#!/bin/bash
# Defects of texts: a source without its licence, tabs and trailing blanks, names of one
# machine's folders, files that outgrew their object.
# DO-12
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib_check.sh"

complain() { # TEXT; reads places
    local found
    found=$(cat)
    [ -z "$found" ] || {
        echo "$1:"
        echo "$found"
        return 1
    }
}

check_places() { # TEXT PATTERN FILE...
    local text=$1 pattern=$2
    shift 2
    [ $# = 0 ] || { grep -nHIP "$pattern" "$@" || true; } | cut -c1-120 | complain "$text"
}

check() { # DIR
    local rc=0 path
    local -a code all
    cd "$1" || return 1

    mapfile -t code < <(sources . c h hip)
    mapfile -t all < <(find . -type f -not -path './.git*' -not -path './build*' -not -path './.gpu/*' \
        -not -path './autom4te.cache/*' -not -path './contrib/build-aux/*' \
        -not -name 'l[t]*.m4' -not -name libtool.m4 -not -path './configure*' \
        -not -name aclocal.m4 -not -name Makefile.in -not -name 'config.h*' \
        -not -path './perf/results/*' -not -path './contrib/check_text.sh' | sort)
    for path in "${code[@]}"; do
        head -n 1 "$path" | grep -qF '/* SPDX-License-Identifier: BSD-3-Clause */' ||
            echo "$path"
    done | complain 'no SPDX line at the top' || rc=1
    check_places 'tabs in code' '\t' "${code[@]}" || rc=1
    check_places 'blanks at the end of a line' '[ \t]+$' "${all[@]}" || rc=1
    check_places 'a folder of one machine' '(?<![\w.$}"])/(work|home|root)/(?!\.cache)\w' "${all[@]}" || rc=1
    return $rc
}

licence='/* SPDX-License-Identifier: BSD-3-Clause */'

samples() {
    echo 'int a;' | write src/bad.c
    bad 'no licence' 'src/bad.c'
    printf '%s\n\tint a;\n' "$licence" | write src/bad.c
    bad 'a tab' 'tabs in code'
    printf '%s\nint a; \n' "$licence" | write src/bad.c
    bad 'a trailing blank' 'blanks at the end'
    echo 'see /home/somebody/tree' | write README.md
    bad 'a folder of one machine' 'README.md:1'
    printf '%s\nint a;\n' "$licence" | write src/good.c
    good 'clean text'
}

main "$@"

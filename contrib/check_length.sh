#!/bin/bash
# Lengths: of the functions of each part half have at most 15 lines and 95 % at most 40, and
# no file of the product or its tools has more than 600. A longer one is a question to its
# author; this says when there are too many to answer.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib_check.sh"

median=15 p95=40 file_lines=600

# Lines of each function, with its place: from its name to its end.
functions() { # DIR FOLDER
    local -a files
    mapfile -t files < <(sources "$1" c h | grep "^$2/")
    [ ${#files[@]} = 0 ] || (cd "$1" && ctags --quiet --options=NONE --sort=no --languages=C --langmap=C:.c.h --kinds-C=f \
        --fields=+ne -o - "${files[@]}" 2> >(grep -v TOML >&2)) |
        awk -F'\t' '!/^!/ {
            for (i = 4; i <= NF; ++i) {
                if ($i ~ /^line:/) line = substr($i, 6)
                if ($i ~ /^end:/) end = substr($i, 5)
            }
            print end - line + 1, $2 ":" line ": " $1
        }' | sort -n
}

at() { # PER-CENT LINES..: the one that so many are not longer than
    local share=$1
    shift
    local index=$((($# * share + 99) / 100))
    echo "${!index}"
}

check_functions() { # DIR FOLDER
    local all rc=0 half most
    local -a lengths
    all=$(functions "$1" "$2")
    [ -n "$all" ] || return 0

    mapfile -t lengths < <(cut -d' ' -f1 <<<"$all")
    half=$(at 50 "${lengths[@]}")
    most=$(at 95 "${lengths[@]}")
    echo "$2: ${#lengths[@]} functions, half of them at most $half lines, 95 % at most $most"
    [ "$half" -le $median ] || {
        echo "$2: half of the functions have more than $median lines"
        rc=1
    }
    [ "$most" -le $p95 ] || {
        echo "$2: more than one function in twenty has over $p95 lines:"
        awk -v most=$p95 '$1 > most' <<<"$all"
        rc=1
    }
    return $rc
}

check() { # DIR
    local path lines rc=0

    check_functions "$1" src || rc=1
    check_functions "$1" ucx_plugin || rc=1
    while read -r path; do
        lines=$(wc -l <"$1/$path")
        case $path in
        # a contract and a table, which are better whole
        src/morikv.h | ucx_plugin/base/muct_uct_abi.h) continue ;;
        esac
        [ "$lines" -le $file_lines ] || {
            echo "$path: $lines lines; expected at most $file_lines: look for the second object in it"
            rc=1
        }
    done < <(sources "$1" c h hip | grep -E '^(src|ucx_plugin|perf)/')
    return $rc
}

c_function() { # NAME LINES
    echo "int $1(void)"
    echo '{'
    yes '    first();' | head -n $(($2 - 4))
    echo '    return 0;'
    echo '}'
}

samples() {
    for i in 1 2 3; do c_function "long$i" 16; done | write src/a.c
    bad 'a median too long' 'half of the functions have more than 15'
    {
        for i in $(seq 18); do c_function "short$i" 8; done
        c_function long1 41
        c_function long2 41
    } | write ucx_plugin/a.c
    bad 'too many long functions' 'ucx_plugin/a.c:.*: long2'
    yes 'int a;' | head -n 601 | write perf/a.c
    bad 'a file too long' 'perf/a.c: 601 lines'
    {
        for i in $(seq 19); do c_function "short$i" 15; done
        c_function long1 60
    } | write src/a.c
    good 'one long function in twenty'
}

tool ctags
main "$@"

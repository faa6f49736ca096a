#!/bin/bash
# Sizes. Half of a part's functions have at most 15 lines and 95 % at most 40. A folder has
# at most 24 files, a part exports at most 15 functions a 1000 lines, and a header declares
# the functions of one file: one object stays in one file, however long.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib_check.sh"

median=15 p95=40 most_files=24 most_exports=15

# "PART EXPORTS" and "HEADER": exceptions until they keep the rule. A number only goes down. The
# public header and the wire format are contracts over many files.
more_exports='src 17
ucx_plugin/xgmi 16'
many_files='src/morikv.h
src/wire/wire.h
src/wire/codec.h
src/post/post.h
src/xfer/xfer.h
ucx_plugin/base/muct_gpu.h
perf/gpu/gpu_bench.h
perf/workload/options.h
perf/kv_perf/engine/run.h'

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

at() { # PER-CENT LINES..: the length that this share does not exceed
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

# The allowance of NAME in a table, or else DEFAULT.
most_of() { # TABLE NAME DEFAULT
    local most
    most=$(awk -v name="$2" '$1 == name { print $2 }' <<<"$1")
    echo "${most:-$3}"
}

check_folders() { # DIR
    local folder count rc=0

    while read -r count folder; do
        [ "$count" -le $most_files ] || {
            echo "$folder: $count files; expected at most $most_files: look for the second room in it"
            rc=1
        }
    done < <(sources "$1" c h hip | grep -E '^(src|ucx_plugin|perf)/' | sed 's|/[^/]*$||' | sort | uniq -c)
    return $rc
}

# "NAME FILE": functions with external linkage, by their definitions; "NAME HEADER:" by
# their declarations.
linkage() { # DIR PART KINDS
    local -a list
    mapfile -t list < <(sources "$1" c h | grep "^$2/")
    [ ${#list[@]} = 0 ] || (cd "$1" && ctags --quiet --options=NONE --sort=no --languages=C --langmap=C:.c.h --kinds-C="$3" \
        --fields=+e -o - "${list[@]}" 2> >(grep -v TOML >&2)) | grep -v '^!' |
        awk -F'\t' '!/\tfile:/ { print $1, $2 }'
}

check_exports() { # DIR PART
    local defined lines count most rc=0
    defined=$(linkage "$1" "$2" f | grep '\.c$' | sort -u)
    [ -n "$defined" ] || return 0

    lines=$(sources "$1" c h | grep "^$2/" | sed "s|^|$1/|" | xargs cat | wc -l)
    count=$(wc -l <<<"$defined")
    most=$(most_of "$more_exports" "$2" $most_exports)
    # too few functions to judge
    [ "$count" -lt 20 ] || [ $((1000 * count)) -le $((most * lines + lines / 2)) ] || {
        echo "$2: $count exported functions in $lines lines; expected at most $most in 1000"
        rc=1
    }
    # shellcheck disable=SC2016
    linkage "$1" "$2" p | grep '\.h$' | sort -u |
        allowed=$many_files awk 'BEGIN { n = split(ENVIRON["allowed"], list, "\n"); for (i = 1; i <= n; ++i) may[list[i]] = 1 }
            NR == FNR { if (!($1 in file)) file[$1] = $2; else if (file[$1] != $2) file[$1] = "-"; next }
            ($1 in file) && (file[$1] != "-") && !(($2, file[$1]) in seen) {
                seen[$2, file[$1]] = 1; from[$2] = from[$2] " " file[$1]; ++num[$2]
            }
            END {
                for (header in num) if ((num[header] > 1) && !(header in may)) {
                    print header " declares functions of" from[header]; bad = 1
                }
                exit bad
            }' <(echo "$defined") - || rc=1
    return $rc
}

check() { # DIR
    local part rc=0

    check_functions "$1" src || rc=1
    check_functions "$1" ucx_plugin || rc=1
    check_folders "$1" || rc=1
    for part in src ucx_plugin/loader ucx_plugin/copy ucx_plugin/xgmi ucx_plugin/rdma perf; do
        check_exports "$1" "$part" || rc=1
    done
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
    for i in $(seq 25); do echo "static int a$i;" | write "src/wire/a$i.c"; done
    bad 'a folder too full' 'src/wire: 25 files; expected at most 24'
    for i in $(seq 20); do c_function "f$i" 4; done | write ucx_plugin/copy/a.c
    bad 'too many exported functions' 'ucx_plugin/copy: 20 exported functions in 80 lines'
    c_function one 4 | write src/peer/one.c
    c_function two 4 | write src/peer/two.c
    printf 'int one(void);\nint two(void);\n' | write src/peer/both.h
    bad 'a header of two files' 'src/peer/both.h declares functions of'
    {
        for i in $(seq 19); do c_function "short$i" 15; done
        c_function long1 60
    } | sed 's/^int/static int/' | write src/a.c
    good 'one long function in twenty'
}

tool ctags
main "$@"

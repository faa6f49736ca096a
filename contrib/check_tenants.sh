#!/bin/bash
# Each public call of morikv.h is used by a tool, an example or the Python package, and each
# option MORIKV_* is used there or is in the table of docs/morikv.md, which is the user's.
# Tests and benchmarks do not count: a call that only they use must not be public. No
# transport of the plugin has more options than a limit.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib_check.sh"

users=(contrib/python/morikv contrib/examples perf/kv_perf perf/memory perf/workload perf/gpu perf/nixl)

used() { # DIR: names mkv_* in the files of users
    local folder
    for folder in "${users[@]}"; do
        [ ! -d "$1/$folder" ] || grep -rhoE --include='*.c' --include='*.h' --include='*.py' \
            --exclude=morikv.h '\bmkv_[a-z0-9_]+\b' "$1/$folder"
    done | sort -u
}

calls() { # DIR
    sed -n 's/^ *\(mkv_[a-z0-9_]*\);.*/\1/p' "$1/src/libmorikv.map" | sort -u
}

options() { # DIR
    sed -n 's/^    {"\([A-Z0-9_]*\)",.*/\1/p' "$1/src/base/options_table.c" | sort -u
}

# Most options of a transport. A new one takes the place of another, or raises the number
# here; the commit names the use that needs it.
declare -A most=([xgmi]=21 [rdma]=38 [copy]=8)

plugin_options() { # DIR TRANSPORT
    [ ! -d "$1/ucx_plugin/$2" ] ||
        grep -rhoP --include='*.c' '^    \{"\K[A-Z][A-Z0-9_]*(?=", *("|UCS_PP|$))' "$1/ucx_plugin/$2" | sort -u
}

check_plugin() { # DIR
    local transport names rc=0 count
    for transport in "${!most[@]}"; do
        names=$(plugin_options "$1" "$transport")
        count=$(grep -c . <<<"$names")
        [ "$count" -le "${most[$transport]}" ] || {
            echo "mori_$transport has $count options, expected at most ${most[$transport]}: make it a constant" \
                "of ucx_plugin/base/muct_tuning.h, or raise the number in contrib/check_tenants.sh"
            rc=1
        }
    done
    return $rc
}

is_chosen() { # DIR OPTION
    local folder
    ! grep -q "^| \`$2\` |" "$1/docs/morikv.md" || return 0
    for folder in "${users[@]}"; do
        [ ! -d "$1/$folder" ] || ! grep -rqE "\"(MORIKV_)?$2\"" "$1/$folder" || return 0
    done
    return 1
}

check() { # DIR
    local rc=0 name found

    found=$(used "$1")
    for name in $(calls "$1"); do
        grep -qx "$name" <<<"$found" || {
            echo "$name() is public, and no tool, example or Python module calls it"
            rc=1
        }
    done
    for name in $(options "$1"); do
        is_chosen "$1" "$name" || {
            echo "option $name is set by no tool and documented in docs/morikv.md by no row"
            rc=1
        }
    done
    check_plugin "$1" || rc=1
    return $rc
}

plugin_of() { # NUMBER
    local i
    for ((i = 0; i < $1; ++i)); do printf '    {"A%d", "0",\n' "$i"; done | write ucx_plugin/copy/copy_tl.c
}

tree_of() { # CALL OPTION
    printf 'V {\n    global:\n        mkv_a;\n        %s;\n};\n' "$1" | write src/libmorikv.map
    printf '    {"SGL", "n",\n    {"%s", "0",\n' "$2" | write src/base/options_table.c
    # shellcheck disable=SC2016
    printf '| `SGL` | `n` | lists |\n' | write docs/morikv.md
    printf 'mkv_a();\nset("MORIKV_TLS");\n' | write perf/kv_perf/a.c
    printf 'lib.mkv_b(1)\n' | write contrib/python/morikv/b.py
}

samples() {
    tree_of mkv_b TLS
    good 'calls and options in use'
    tree_of mkv_c TLS
    bad 'a call without a caller' 'mkv_c() is public'
    tree_of mkv_b SPIN
    bad 'an option that nobody can choose' 'option SPIN'
    tree_of mkv_c TLS
    echo 'mkv_c();' | write test/unit/morikv/c.c
    bad 'a call that a test makes alone' 'mkv_c() is public'
    tree_of mkv_c TLS
    echo 'int mkv_c(void);' | write contrib/python/morikv/morikv.h
    bad 'a call that a copy of the header declares' 'mkv_c() is public'
    tree_of mkv_b TLS
    tree_of mkv_b TLS
    plugin_of 8
    good 'as many options of a transport as there may be'
    tree_of mkv_b TLS
    plugin_of 9
    bad 'one option of a transport more' 'mori_copy has 9 options'
}

main "$@"

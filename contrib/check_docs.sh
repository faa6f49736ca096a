#!/bin/bash
# The pages say what is so: links lead somewhere, every option of the library is in its
# page, and every UCX_MORI_ or MORIKV_ variable that a page names exists.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib_check.sh"

pages() { (cd "$1" && find . -name '*.md' -not -path './build*' -not -path './.git/*' | sort); }

check_links() { # DIR PAGE
    local target rc=0
    while read -r target; do
        case $target in
        http*:* | \#* | '') continue ;;
        esac
        [ -e "$1/$(dirname "$2")/${target%%#*}" ] || {
            echo "$2 links to $target, which is not there"
            rc=1
        }
    done < <(grep -oP '\]\(\K[^)\s]+' "$1/$2")
    return $rc
}

# Rows that every UCX interface has.
inherited='ALLOC FAILURE MAX_NUM_EPS MAX_BUFS BUFS_GROW'

# Rows of UCX's and our own option tables begin {"NAME", "default"; a table's prefix is
# {... .prefix = "MORI_XGMI_"} or the like, so a variable may end in any row's name.
option_names() { # FILE...
    sed -n 's/^ *{"\([A-Z][A-Z0-9_]*\)", *\("\|NULL\|[A-Z(]\).*/\1/p; s/^ *{"\([A-Z][A-Z0-9_]*\)",$/\1/p' "$@"
}

check_variables() { # DIR PAGE NAMES
    local variable name rc=0
    while read -r variable; do
        name=${variable#UCX_MORI_XGMI_}
        name=${name#UCX_MORI_RDMA_}
        name=${name#UCX_MORI_COPY_}
        name=${name#UCX_MORI_}
        name=${name#MORIKV_}
        case $name in
        '' | NAME) continue ;;
        esac
        case " $inherited " in
        *" $name "*) continue ;;
        esac
        grep -qx "$name" <<<"$3" || {
            echo "$2 names $variable, and no table has it"
            rc=1
        }
    done < <(grep -oE '\b(UCX_MORI|MORIKV)_[A-Z0-9_]+' "$1/$2" | sort -u)
    return $rc
}

check() { # DIR
    local dir=$1 page name names rc=0
    local -a tables
    mapfile -t tables < <(sources "$dir" c h | sed "s|^|$dir/|")

    names=$(option_names "${tables[@]}" /dev/null)
    while read -r page; do
        check_links "$dir" "$page" || rc=1
        check_variables "$dir" "$page" "$names" || rc=1
    done < <(pages "$dir")
    if [ -e "$dir/src/base/options.c" ]; then
        while read -r name; do
            grep -q "^| \`$name\` |" "$dir/docs/morikv.md" || {
                echo "docs/morikv.md does not list the option $name"
                rc=1
            }
        done < <(option_names "$dir/src/base/options.c")
    fi
    return $rc
}

# shellcheck disable=SC2016
samples() {
    echo 'see [there](nowhere.md)' | write README.md
    bad 'a link to nowhere' nowhere.md
    echo 'set UCX_MORI_XGMI_LIST to 5' | write docs/xgmi.md
    echo '    {"LISTS", "8",' | write ucx_plugin/xgmi/xgmi_iface.c
    bad 'a variable that is none' UCX_MORI_XGMI_LIST
    echo '    {"STRICT", "n",' | write src/base/options.c
    echo '| `BACKEND` | `auto` | |' | write docs/morikv.md
    bad 'an option the page forgot' STRICT
    echo '    {"LISTS", "8",' | write ucx_plugin/xgmi/xgmi_iface.c
    echo '    {"STRICT", "n",' | write src/base/options.c
    echo '| `STRICT` | `n` | |' | write docs/morikv.md
    echo 'set UCX_MORI_XGMI_LISTS, see [there](docs/morikv.md#options)' | write README.md
    good 'pages that are right'
}

main "$@"

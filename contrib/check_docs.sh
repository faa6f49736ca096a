#!/bin/bash
# Check the pages: links lead somewhere; every option of the library is in its page; every UCX_MORI_ or
# MORIKV_ variable and every file that a page names exists; a command that CI does not run has a reason
# (contrib/page_commands); pages of docs/ are distributed and in the index; the pages are short.
# DO-07, DO-08, DO-10
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib_check.sh"

pages() { (cd "$1" && find . -name '*.md' -not -path './build*' -not -path './.git/*' | sort); }

# Headings as links name them.
anchors() { # FILE
    sed -n 's/^##* //p' "$1" | tr '[:upper:]' '[:lower:]' | sed 's/[^a-z0-9 _-]//g; s/ /-/g'
}

check_links() { # DIR PAGE
    local target file rc=0
    while read -r target; do
        case $target in
        http*:* | '') continue ;;
        \#*) file=$1/$2 ;;
        *) file=$1/$(dirname "$2")/${target%%#*} ;;
        esac
        [ -e "$file" ] || {
            echo "$2 links to $target, which is not there"
            rc=1
            continue
        }
        case $target in
        *\#*) anchors "$file" | grep -xF "${target#*#}" >/dev/null || {
            echo "$2 links to $target, and that page has no such heading"
            rc=1
        } ;;
        esac
    done < <(grep -oP '\]\(\K[^)\s]+' "$1/$2")
    return $rc
}

# A program is named without its suffix, a place to be filled in is in capitals, .libs is built.
check_files() { # DIR PAGE
    local file rc=0
    while read -r file; do
        case $file in
        *[A-Z][A-Z]* | */.libs) continue ;;
        esac
        [ -e "$1/$file" ] || [ -e "$1/$file.c" ] || {
            echo "$2 names $file, which is not there"
            rc=1
        }
    done < <(grep -oP '\x60\K(test|src|perf|contrib|ucx_plugin)/[A-Za-z0-9_./-]+(?=\x60)' "$1/$2" | sort -u)
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

# A command's mark names an existing test or a known reason. contrib/run_readme runs the commands
# without a mark and fails when one of them fails.
check_marks() { # DIR PAGE
    local mark rc=0
    while read -r mark; do
        case $mark in
        "no CI: AMD GPU" | "no CI: NIC" | "no CI: opt-in") continue ;;
        "CI: "*) [ ! -e "$1/${mark#CI: }" ] || continue ;;
        esac
        echo "$2 has [$mark]; expected a test's file, or no CI: AMD GPU, NIC or opt-in"
        rc=1
    done < <("$here/page_commands" --marks "$1/$2")
    # a block of commands holds only commands of ours or UCX's; Python belongs between fences
    if "$here/page_commands" "$1/$2" |
        grep -vE '^(export )?[A-Z_]+=|^(ucx_(info|perftest)|mori_[a-z_]+|autoreconf|make|cc|contrib/(demo|test)) ?|^pip install \./contrib'; then
        echo "$2: nothing runs this; add after a # the test that does, [CI: FILE], or the reason, [no CI: opt-in]"
        rc=1
    fi
    if awk '/^```/ { fence = !fence } fence && /^(\$ |\.\/|ucx_|mori_|contrib\/|export |make )/ { print; bad = 1 }
        END { exit !bad }' "$1/$2"; then
        echo "$2 has commands between fences, where nothing runs them: set them off by four blanks"
        rc=1
    fi
    return $rc
}

# README, CONTRIBUTING, CHANGELOG and docs/ together; text without a letter or digit, such as a
# table's lines, is not counted.
most_words=25000
check_length() { # DIR
    local page words all=0 table=''
    while read -r page; do
        case $page in
        ./README.md | ./CONTRIBUTING.md | ./CHANGELOG.md | ./docs/*) ;;
        *) continue ;;
        esac
        words=$(tr -s '[:space:]' '\n' <"$1/$page" | grep -c '[[:alnum:]]')
        all=$((all + words))
        table+="$words $page"$'\n'
    done < <(pages "$1")
    [ $all -le $most_words ] || {
        echo "the pages have $all words; expected at most $most_words. The longest:"
        sort -rn <<<"$table" | head -n 5
        return 1
    }
}

# Each page of docs/ is in the tarball and in the index.
check_places() { # DIR
    local page rc=0
    [ -e "$1/Makefile.am" ] || return 0
    while read -r page; do
        case $page in
        ./docs/README.md) continue ;;
        ./docs/*) page=${page#./docs/} ;;
        *) continue ;;
        esac
        (cd "$1" && find . -name '*.mk' -o -name Makefile.am) | sed "s|^|$1/|" | xargs grep -qF "docs/$page" || {
            echo "docs/$page is in no EXTRA_DIST"
            rc=1
        }
        grep -qF "]($page)" "$1/docs/README.md" || {
            echo "docs/README.md does not list $page"
            rc=1
        }
    done < <(pages "$1")
    return $rc
}

check() { # DIR
    local dir=$1 page name names rc=0
    local -a tables
    mapfile -t tables < <(sources "$dir" c h | sed "s|^|$dir/|")

    names=$(option_names "${tables[@]}" /dev/null)
    while read -r page; do
        check_links "$dir" "$page" || rc=1
        check_files "$dir" "$page" || rc=1
        check_variables "$dir" "$page" "$names" || rc=1
        case $page in
        ./README.md | ./docs/* | ./perf/README.md) check_marks "$dir" "$page" || rc=1 ;;
        esac
    done < <(pages "$dir")
    check_length "$dir" || rc=1
    check_places "$dir" || rc=1
    if [ -e "$dir/src/base/options_table.c" ]; then
        while read -r name; do
            grep -q "^| \`$name\` |" "$dir/docs/morikv.md" || {
                echo "docs/morikv.md does not list the option $name"
                rc=1
            }
        done < <(option_names "$dir/src/base/options_table.c")
    fi
    return $rc
}

# shellcheck disable=SC2016
samples() {
    echo 'see [there](nowhere.md)' | write README.md
    bad 'a link to nowhere' nowhere.md
    printf '# One page\n\nsee [there](#another-heading)\n' | write README.md
    bad 'a link to no heading' 'no such heading'
    yes 'one word and others' | head -n 6300 | write docs/long.md
    bad 'pages of 25 200 words' 'have 25200 words'
    echo 'proven by `test/unit/none.c`' | write docs/dev/design.md
    bad 'a file that is not there' 'names test/unit/none.c'
    echo 'set UCX_MORI_XGMI_LIST to 5' | write docs/xgmi.md
    echo '    {"LISTS", "8",' | write ucx_plugin/xgmi/xgmi_tl.c
    bad 'a variable that is none' UCX_MORI_XGMI_LIST
    echo '    {"STRICT", "n",' | write src/base/options_table.c
    echo '| `BACKEND` | `auto` | |' | write docs/morikv.md
    bad 'an option the page forgot' STRICT
    echo '    ucx_info -d  # [no CI: later]' | write docs/xgmi.md
    bad 'a reason that is none' 'no CI: later'
    echo '    ucx_info -d  # [CI: test/nowhere.sh]' | write docs/xgmi.md
    bad 'a test that is not there' 'CI: test/nowhere.sh'
    echo '    vllm serve MODEL' | write docs/xgmi.md
    bad 'a command of others' 'nothing runs this'
    echo '[new](dev/new.md)' | write docs/README.md
    echo 'a page' | write docs/dev/new.md
    echo 'EXTRA_DIST = docs/README.md' | write Makefile.am
    bad 'a page that is not distributed' 'docs/dev/new.md is in no EXTRA_DIST'
    echo 'an index' | write docs/README.md
    echo 'a page' | write docs/dev/new.md
    echo 'EXTRA_DIST = docs/dev/new.md' | write Makefile.am
    bad 'a page without a link' 'does not list dev/new.md'
    printf '```\nmake install\n```\n' | write docs/xgmi.md
    bad 'a command that nothing runs' 'between fences'
    echo '    {"LISTS", "8",' | write ucx_plugin/xgmi/xgmi_tl.c
    echo '    {"STRICT", "n",' | write src/base/options_table.c
    printf '# All `Options`, here\n\n| `STRICT` | `n` | |\n' | write docs/morikv.md
    echo 'set UCX_MORI_XGMI_LISTS, see [there](docs/morikv.md#all-options-here)' | write README.md
    printf '    ucx_info -d\n    prove  # [no CI: NIC]\n' | write docs/rdma.md
    good 'pages that are right'
}

main "$@"

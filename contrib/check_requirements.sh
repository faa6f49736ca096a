#!/bin/bash
# docs/dev/requirements-tests.md: every row has an id of its own and names tests; a test that it
# names, `program: case`, further `case`s of it, or `script.sh`, exists and is run, and so does
# a `path/of/a/file`. Under "Every requirement" the second column is a state, what passes names
# a test or is "above", and the sentence in front counts the states.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib_check.sh"

page=docs/dev/requirements-tests.md

test_file() { # DIR NAME
    find "$1/test" -name "$2" -type f | head -n 1
}

is_script() { # DIR NAME: run by make check, or a job of the virtual machine
    local file
    file=$(test_file "$1" "$2")
    [ -n "$file" ] || return 1
    case $file in
    */test/vm/jobs/*) return 0 ;;
    esac
    grep -rq --include='*.mk' "/$2\b" "$1/test"
}

is_case() { # DIR PROGRAM CASE
    local file
    file=$(test_file "$1" "$2.c")
    [ -n "$file" ] && grep -q "^START_TEST($3)" "$file" &&
        grep -qE "^ *tcase_add(_loop)?_test\([a-z]+, $3[,)]" "$file"
}

check_row() { # DIR ID TESTS
    local program='' name rc=0 any=0
    while read -r name; do
        any=1
        case $name in
        */*) [ -e "$1/$name" ] ;;
        *.sh) is_script "$1" "$name" ;;
        *': '*)
            program=${name%%: *}
            is_case "$1" "$program" "${name#*: }"
            ;;
        *) is_case "$1" "$program" "$name" ;;
        esac || {
            echo "$page: $2 names the test '$name', which is not there or not run"
            rc=1
        }
    done < <(grep -oP '\x60[^\x60]+\x60' <<<"$3" | tr -d '\140')
    [ $any = 1 ] || [ "${4:-}" = optional ] || {
        echo "$page: $2 names no test"
        rc=1
    }
    return $rc
}

check_state() { # DIR ID STATE TESTS, and whether a row above has the ID
    case ${3// /} in
    passes)
        [[ $4 != " above"* ]] || [ -n "$5" ] || {
            echo "$page: there is no row of $2 above"
            return 1
        }
        if [ "$4" = ' above ' ]; then return 0; fi
        check_row "$1" "$2" "$4"
        ;;
    partly | missing) check_row "$1" "$2" "$4" optional ;;
    *)
        echo "$page: $2 is '$3', expected passes, partly or missing"
        return 1
        ;;
    esac
}

# The sentence that counts them
check_counts() { # DIR ALL PASSES PARTLY MISSING
    [ "$2" = 0 ] || grep -q "^Of $2 rows $3 pass, $4 are met partly, and $5 are missing\." "$1/$page" || {
        echo "$page: of $2 rows $3 pass, $4 are partly met and $5 missing; the page has other numbers"
        return 1
    }
}

check() { # DIR
    local dir=$1 section='' row id statement tests rest rc=0
    local -A seen=() above=() states=([passes]=0 [partly]=0 [missing]=0)

    [ -e "$dir/$page" ] || return 0
    while IFS= read -r row; do
        case $row in
        '## '*) section=$row ;;
        '| '[A-Z][A-Z]-[0-9]*)
            IFS='|' read -r _ id statement tests rest <<<"$row"
            id=${id// /}
            [ -z "${rest// /}" ] && [ -n "${statement// /}" ] || {
                echo "$page: $id has not three columns"
                rc=1
            }
            [ -z "${seen[$section$id]:-}" ] || {
                echo "$page: $id occurs twice"
                rc=1
            }
            seen[$section$id]=1
            if [ "$section" = '## Every requirement' ]; then
                states[${statement// /}]=$((${states[${statement// /}]:-0} + 1))
                check_state "$dir" "$id" "$statement" "$tests" "${above[$id]:-}" || rc=1
            else
                for row in ${id//,/ }; do above[$row]=1; done
                check_row "$dir" "$id" "$tests" || rc=1
            fi
            ;;
        esac
    done <"$dir/$page"
    check_counts "$dir" $((states[passes] + states[partly] + states[missing])) \
        "${states[passes]}" "${states[partly]}" "${states[missing]}" || rc=1
    return $rc
}

row() { # ID TESTS
    write $page <<<"| $1 | something | $2 |"
    printf 'START_TEST(%s)\n{\n}\nEND_TEST\n    tcase_add_loop_test(tcase, %s, 0,\n' moves moves | write test/unit/src_some.c
    printf 'START_TEST(%s)\n' rests | write test/unit/src_idle.c
    echo 'TESTS += test/unit/run.sh' | write test/unit/src.mk
    touch "$sample/test/unit/run.sh" "$sample/test/unit/stray.sh"
}

# shellcheck disable=SC2016
state() { # STATE TESTS [COUNTS]
    row XF-01 '`src_some: moves`'
    printf '## Every requirement\nOf %s are missing.\n| XF-01 | %s | %s |\n' \
        "${3:-1 rows 1 pass, 0 are met partly, and 0}" "$1" "$2" >>"$sample/$page"
}

# shellcheck disable=SC2016
samples() {
    row XF-01 '`src_some: moves_fast`'
    bad 'a case that is not there' 'XF-01 names the test .src_some: moves_fast'
    row XF-01 '`src_some: moves`, `rests`'
    bad 'a case of another program' 'XF-01 names the test .rests'
    row XF-01 '`src_idle: rests`'
    bad 'a case that is not run' 'XF-01 names the test .src_idle: rests'
    row XF-01 '`stray.sh`'
    bad 'a script that is not run' 'XF-01 names the test .stray.sh'
    row XF-01 'all of them'
    bad 'a row without a test' 'XF-01 names no test'
    row XF-01 '`src_some: moves` | more'
    bad 'a row of four columns' 'XF-01 has not three columns'
    row XF-01 $'`run.sh` |\n| XF-01 | again | `run.sh`'
    bad 'a row that occurs twice' 'XF-01 occurs twice'
    state passes 'somehow'
    bad 'a state without a test' 'XF-01 names no test'
    state perhaps '`run.sh`'
    bad 'a state that is none' "XF-01 is ' perhaps '"
    state partly 'most of it' '1 rows 1 pass, 0 are met partly, and 0'
    bad 'states that are counted wrongly' 'the page has other numbers'
    state passes '`test/none`'
    bad 'a file that is not there' 'XF-01 names the test .test/none'
    state passes above
    good 'a state that is right'
    row XF-01 '`src_some: moves`; `run.sh`'
    good 'a row that is right'
}

main "$@"

#!/bin/bash
# docs/dev/requirements-tests.md is the output of contrib/requirements for test/requirements.txt and
# of the tags in the tests, and each tag names a row.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib_check.sh"

page=docs/dev/requirements-tests.md

check() { # DIR
    local made rc=0

    [ -e "$1/test/requirements.txt" ] || return 0
    made=$("$here/requirements" "$1") || rc=1
    diff -u --label "$page" --label made "$1/$page" - <<<"$made" || {
        echo "$page is not up to date: contrib/requirements > $page"
        rc=1
    }
    return $rc
}

# Write a tree with one row and a test that has the tag, and make its page.
# shellcheck disable=SC2016
tree_of() { # TAG CASES-THAT-RUN TESTS
    printf 'AB-01 | A transfer ends.\n' | write test/requirements.txt
    printf '/* %s */\nSTART_TEST(ends)\n{\n}\nEND_TEST\n    tcase_add_test(tcase, %s);\n' "$1" "$2" |
        write test/unit/test_a.c
    printf 'EXTRA_DIST += test/unit/test_a\nTESTS += $(all)\nall = %s\n' "$3" | write test/unit/local.mk
    printf 'commit_levels="unit"\nlevel_unit() { make; }\nlevel_engine() { "$tree/test/unit/test_a"; }\n' |
        write contrib/test
    "$here/requirements" "$sample" 2>/dev/null | write $page
}

state_is() { # NAME STATE
    if grep -q "^| AB-01 | A transfer ends. | $2 |" "$sample/$page"; then
        good "$1"
    else
        seen wrong "$1" "$(cat "$sample/$page")"
    fi
}

samples() {
    tree_of AB-01 ends test/unit/test_a
    state_is 'a row whose test is run' passes
    tree_of AB-01 ends ''
    state_is 'a row whose test is packed and run by name only' open
    tree_of AB-01 other test/unit/test_a
    state_is 'a row whose case is not in the suite' open
    tree_of AB-02 ends test/unit/test_a
    bad 'a tag without a row' 'no requirement AB-02'
    tree_of AB-01 ends test/unit/test_a
    sed -i 's/| passes |/| open |/' "$sample/$page"
    bad 'a page that was edited' 'is not up to date'
    tree_of AB-01 ends test/unit/test_a
    sed -i 's/$/ | AMD GPUs: mori_prove/' "$sample/test/requirements.txt"
    bad 'a page that is older than the rows' 'partly: AMD GPUs'
    tree_of AB-01 ends test/unit/test_a
    printf '# AB-01\nlevel_unit() { run; }\n' >>"$sample/contrib/test"
    "$here/requirements" "$sample" | write $page
    state_is 'a row of a level that is run' passes
}

main "$@"

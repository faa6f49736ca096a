#!/bin/bash
# contrib/budget.txt has a row of two budgets for each level of contrib/test, the commit tier
# stays within 25 minutes on two processors, and a level above its budget fails.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib_check.sh"

table=contrib/budget.txt
most=2800

levels() { # DIR VARIABLE
    sed -n "s/^$2=\"\([a-z0-9 ]*\)\"\$/\1/p" "$1/contrib/test" | tr ' ' '\n'
}

rows() { # DIR
    sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "$1/$table"
}

check() { # DIR
    local level sum rc=0

    [ -e "$1/$table" ] || return 0
    while read -r level; do
        [ "$(rows "$1" | awk -v level="$level" '$1 == level' | grep -c .)" = 1 ] || {
            echo "$table: level $level of contrib/test needs one row"
            rc=1
        }
    done < <(levels "$1" commit_levels; levels "$1" nightly_levels)
    rows "$1" | grep -vE '^[a-z0-9_]+( +([0-9]+|-)){2} *$' && {
        echo "$table: expected LEVEL COMMIT NIGHTLY, two numbers of seconds or '-'"
        rc=1
    }
    sum=$(rows "$1" | awk '{ sum += $2 } END { print sum + 0 }')
    [ "$sum" -le $most ] || {
        echo "$table: the commit tier adds up to $sum s of the processors, more than $most"
        rc=1
    }
    return $rc
}

# The function of contrib/test, on a level of 15 s
over_budget() { # ROW
    printf '0m1s 0m2s\n0m7s 0m5s\n' >"$sample/level-unit.times"
    echo "$1" >"$sample/budget.txt"
    # shellcheck disable=SC2016
    lib=$here/test_lib.sh tree=$sample \
        bash -c 'unset MKV_TEST_NIGHTLY; here=$tree; . "$lib"; logs=$tree; check_budgets unit conformance' | grep "$2" >/dev/null
}

samples() {
    write contrib/test <<<'commit_levels="unit vm"'
    write $table <<<'unit 10 -'
    bad 'a level without a row' 'level vm of contrib/test needs one row'
    write contrib/test <<<'commit_levels="unit"'
    write $table <<<'unit ten 20'
    bad 'a budget that is no number' 'expected LEVEL COMMIT NIGHTLY'
    write contrib/test <<<'commit_levels="unit"'
    write $table <<<'unit 2801 20'
    bad 'a commit tier that is too long' 'adds up to 2801 s'
    write contrib/test <<<'commit_levels="unit"'
    write $table <<<'unit 2800 20'
    good 'a commit tier that is just short enough'
    { over_budget 'unit 4 -' 'budget/unit: 15 s of the processors' &&
        over_budget 'vm 4 -' 'budget/unit: .*no row' &&
        ! over_budget 'unit 10 -' . && ! over_budget 'unit - 1' .; } ||
        seen wrong 'a level above its budget' "check_budgets of contrib/test_lib.sh"
}

main "$@"

#!/bin/bash
# Whether a block costs the host more than it did: instructions of libmorikv, mori_xgmi and
# mori_rdma (those of a work request or a key) against the figures that are kept in
# perf/bench/baseline. More than 5 % above one is an error. --update keeps an intended change, in
# the commit that makes it. A gain (NAME.gain) is a ratio: below 1.1, or more than 5 % below the
# kept one, is an error.
#
#   perf/bench/bench_check.sh BUILDDIR [--update]
#   perf/bench/bench_check.sh --self-test
# BM-04, BM-07, TR-06
set -euo pipefail
[[ ${1-} != -* || $1 == --self-test ]] || {
    echo "perf/bench/bench_check.sh: no option '$1'; expected BUILD [--update], or --self-test" >&2
    exit 2
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# Reads "NAME FIGURE" lines; the first file is the baseline.
compare() { # BASELINE FIGURES
    awk -v limit=5 '
        NR == FNR { kept[$1] = $2; next }
        { seen[$1] = 1 }
        !($1 in kept) { printf "%s: %s, and no figure is kept\n", $1, $2; bad = 1; next }
        $2 !~ /^[0-9.]+$/ { printf "%s: not counted\n", $1; bad = 1; next }
        $1 ~ /\.gain$/ {
            is_less = $2 < 1.1 || $2 < kept[$1] * (1 - limit / 100)
            printf "%s: %s times, %s kept%s\n", $1, $2, kept[$1],
                is_less ? ", less than 1.1 or " limit " % below" : ""
            bad = bad || is_less
            next
        }
        {
            is_more = $2 > kept[$1] * (1 + limit / 100) + 0.05
            printf "%s: %s instructions, %s kept%s\n", $1, $2, kept[$1],
                is_more ? ", more than " limit " % above" : ""
            bad = bad || is_more
        }
        END {
            for (name in kept) if (!(name in seen)) { print name ": not measured"; bad = 1 }
            exit bad
        }' "$1" "$2"
}

self_test() {
    local kept='a 100.0'

    compare <(echo "$kept") <(echo 'a 105.0') >/dev/null || { echo "5 % is refused"; return 1; }
    compare <(echo "$kept") <(echo 'a 50.0') >/dev/null || { echo "less is refused"; return 1; }
    ! compare <(echo "$kept") <(echo 'a 105.2') >/dev/null || { echo "more is taken"; return 1; }
    ! compare <(echo "$kept") <(echo 'b 1.0') >/dev/null || { echo "a new one is taken"; return 1; }
    ! compare <(echo "$kept") <(echo 'a -') >/dev/null || { echo "nothing is taken"; return 1; }
    compare <(echo 'a.gain 1.5') <(echo 'a.gain 1.6') >/dev/null || { echo "more gain is refused"; return 1; }
    ! compare <(echo 'a.gain 1.5') <(echo 'a.gain 1.4') >/dev/null || { echo "less gain is taken"; return 1; }
    ! compare <(echo 'a.gain 1.1') <(echo 'a.gain 1.09') >/dev/null || { echo "too little gain is taken"; return 1; }
    ! compare <(echo "$kept") /dev/null >/dev/null || { echo "none is taken"; return 1; }
    echo "self-test passed"
}

self_test
[ "${1:?build directory}" != --self-test ] || exit 0
figures=$(mktemp)
trap 'rm -f "$figures"' EXIT
"$here/bench.sh" "$1" --figures >"$figures" || exit $?
if [ "${2:-}" = --update ]; then
    cp "$figures" "$here/baseline"
    cat "$figures"
else
    compare "$here/baseline" "$figures"
fi

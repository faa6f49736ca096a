#!/bin/bash
# The orders of memory that mori_xgmi relies on, in test/litmus, judged by herd7 under the
# repaired C11 model. The result of a file must be impossible as it is, and possible when the sed
# command of its `weaker:` line weakens the order.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib_check.sh"

observed() { # FILE SED FOLDER
    sed "$2" "$1" >"$3/test.litmus"
    herd7 -model rc11.cat "$3/test.litmus" 2>&1 | awk '
        $1 == "Observation" { print $3; found = 1 } { text = text $0 "\n" }
        END { if (!found) printf "%s", text }'
}

check_litmus() { # FILE NAME
    local folder weaker found rc=0

    folder=$(mktemp -d)
    weaker=$(sed -n 's/^ \* weaker: \(.*\) \*)$/\1/p' "$1")
    found=$(observed "$1" '' "$folder")
    [ "$found" = Never ] || {
        echo "$2: expected never, observed: $found"
        rc=1
    }
    found=$(observed "$1" "/weaker:/! $weaker" "$folder")
    [ "$found" = Sometimes ] || {
        echo "$2: the weaker order breaks nothing, observed: $found"
        rc=1
    }
    rm -rf "$folder"
    return $rc
}

check() { # DIR
    local file rc=0

    for file in "$1"/test/litmus/*.litmus; do
        check_litmus "$file" "${file#"$1"/}" || rc=1
    done
    return $rc
}

mp() { # ORDER OF THE STORE, WEAKER
    write test/litmus/a.litmus <<END
C a
(* two words
 * weaker: $2 *)
{}
P0 (atomic_int *x, atomic_int *y) {
  atomic_store_explicit(x, 1, memory_order_relaxed);
  atomic_store_explicit(y, 1, memory_order_$1);
}
P1 (atomic_int *x, atomic_int *y) {
  int a = atomic_load_explicit(y, memory_order_acquire);
  int b = atomic_load_explicit(x, memory_order_relaxed);
}
exists (1:a=1 /\\ 1:b=0)
END
}

samples() {
    mp release 's/release/relaxed/'
    good 'an order that matters'
    mp relaxed 's/acquire/relaxed/'
    bad 'an order that is missing' 'expected never, observed: Sometimes'
    mp release 's/release/seq_cst/'
    bad 'an order that does not matter' 'breaks nothing'
    mp no_order 's/release/relaxed/'
    bad 'no litmus test' 'unexpected .memory_order_no_order'
    mp release 's/missing/relaxed/'
    bad 'a weaker order that is not there' 'breaks nothing, observed: Never'
}

tool herd7
main "$@"

#!/bin/bash
# The models of the protocol in test/model, searched exhaustively by spin. The head of a
# model lists definitions with which its assertions hold (`holds:`), and rules that must break one
# when they are removed (`breaks:`). A `+` joins definitions that belong together.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib_check.sh"

words() { # MODEL KEY
    sed -n "s/^ \* $2: *//p" "$1" | tr -d ','
}

search() { # MODEL DEFINITIONS
    local folder definitions rc
    folder=$(mktemp -d)
    read -ra definitions <<<"$(sed 's/[^+ ]\+/-D&/g; s/+/ /g' <<<"$2")"
    (
        cd "$folder" && cp "$1" model.pml &&
            spin "${definitions[@]}" -a model.pml &&
            gcc -O1 -DCOLLAPSE -DVECTORSZ=2048 -w -o pan pan.c &&
            ./pan -n -m100000
    ) >"$folder/out" 2>&1
    rc=$?
    if [ $rc != 0 ] || ! grep -q '^Full statespace search' "$folder/out"; then
        cat "$folder/out"
        rm -rf "$folder"
        return 2
    fi
    grep -E '^pan:|error:|not completed|errors:' "$folder/out"
    grep -q 'errors: 0$' "$folder/out" && ! grep -qE 'not completed|search depth too small' "$folder/out"
    rc=$?
    rm -rf "$folder"
    return $rc
}

check_model() { # DIR MODEL
    local found what rc=0

    for what in '' $(words "$1/$2" holds); do
        found=$(search "$1/$2" "$what") || {
            echo "$2: with ${what:-no definition} it does not hold: $found"
            rc=1
        }
    done
    for what in $(words "$1/$2" breaks); do
        found=$(search "$1/$2" "$what")
        case $? in
        0)
            echo "$2: $what breaks nothing: the model proves nothing about that rule"
            rc=1
            ;;
        2)
            echo "$2: $what cannot be tried: $found"
            rc=1
            ;;
        esac
    done
    return $rc
}

check() { # DIR
    local model rc=0

    while read -r model; do
        check_model "$1" "$model" || rc=1
    done < <(cd "$1" && find test/model -name '*.pml' 2>/dev/null | sort)
    return $rc
}

samples() {
    printf '/*\n * breaks: TWICE%b' '\n */\n#ifdef TWICE\nbool ok = true;\n#else\nbool ok;\n#endif\nbyte n;\nactive [2] proctype P() { end: atomic { n == 0 || ok -> n++ }; assert(n < 2) }\n' |
        write test/model/a.pml
    good 'a rule that matters'
    printf '/*\n * breaks: OTHER%b' '\n */\nbyte n;\nactive proctype P() { n++; assert(n < 2) }\n' | write test/model/a.pml
    bad 'a rule that does not matter' 'OTHER breaks nothing'
    printf '/*\n * holds: TWICE%b' '\n */\nbyte n;\n#ifdef TWICE\nactive [2]\n#else\nactive\n#endif\nproctype P() { n++; assert(n < 2) }\n' | write test/model/a.pml
    bad 'a model that does not hold' 'with TWICE it does not hold'
    printf 'byte n\nactive proctype P() { n = ; }\n' | write test/model/a.pml
    bad 'no model' 'with no definition it does not hold'
}

tool spin
tool gcc
main "$@"

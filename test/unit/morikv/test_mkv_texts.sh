#!/bin/sh
# Every text that a transfer may end with names the peer and the leg, unless it is the transfer's
# own affair: all calls in the sources are looked at. The transfer itself is named by
# mkv_xfer_fail() for all of them.
# SM-05
set -eu
sources=$(dirname "$0")/../../../src
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The caller's own words, a text that was made elsewhere, deadlines (which name the leg that is
# waited for), and what no leg is the reason of.
own='^("%s"|"%s by %s"|"%s after %llu ms, waiting for %s"|"context %s was closed"|"the caller.s fence failed"|"no memory for the ranges of the fence")$'

texts() { # FILE..: file, and the first text of each call, in its line
    awk 'FNR == 1 { call = "" }
        /mkv_(leg|xfer)_fail\(/ && !/^(static )?(void|mkv_status_t|#define)/ { call = " " }
        call != "" { call = call $0 }
        call != "" && /;[ \t]*$/ {
            if (match(call, /"[^"]*"/)) { print FILENAME "\t" substr(call, RSTART, RLENGTH) }
            else { print FILENAME "\tno text: " call }
            call = ""
        }' "$@"
}

nameless() { # FILE..
    texts "$@" | while IFS="$(printf '\t')" read -r file text; do
        case $text in '"peer %s, leg %u: '*) continue ;; esac
        echo "$text" | grep -qE "$own" || echo "$file: $text names neither peer nor leg"
    done
}

printf 'static void f(void)\n{\n    mkv_leg_fail(leg, status,\n                 "no memory for %%u", 3);\n}\n' >"$work/bad.c"
[ -n "$(nameless "$work/bad.c")" ] || {
    echo "a text without a name was not found"
    exit 1
}
num=$(find "$sources" -name '*.c' -exec cat {} + | grep -cE '^ +mkv_(leg|xfer)_fail\($|^ +mkv_(leg|xfer)_fail\(' || true)
find "$sources" -name '*.c' >"$work/files"
# shellcheck disable=SC2046
texts $(cat "$work/files") >"$work/texts"
[ "$(wc -l <"$work/texts")" = "$num" ] && [ "$num" -gt 30 ] || {
    echo "$(wc -l <"$work/texts") texts of $num calls were found"
    exit 1
}
# shellcheck disable=SC2046
found=$(nameless $(cat "$work/files"))
echo "$num calls"
[ -z "$found" ] || {
    echo "$found"
    exit 1
}

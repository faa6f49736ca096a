#!/bin/bash
# The rooms of src are floors: who includes or calls goes down, or stays in its room, and
# no files refer to each other in a circle.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib_check.sh"

# Lowest first; what lies in src itself is above them all.
floors=(wire base cache peer xfer post direct store top)

# "NAME FILE" of every function that others can call: a definition begins in column 1.
# shellcheck disable=SC2016
definitions() { # DIR
    (cd "$1/src" && find . -name '*.c' -printf '%P\n' | sort | xargs -r awk '
        FNR == 1 { head = "" }
        /^[A-Za-z_]/ && !/[;=]/ && !/^(typedef|struct|enum|union|static|extern) / { head = "" }
        /^static / { head = "-" }
        /^[A-Za-z_]/ && head != "-" && match($0, /(mkv_[a-z0-9_]+)\(/) {
            head = substr($0, RSTART, RLENGTH - 1)
        }
        /^\{/ { if (head != "" && head != "-") print head, FILENAME }
        /^[{}]/ || /;$/ { head = "" }')
}

# "FROM TO WORD": a file and the file of src that it includes, or whose function it names.
# shellcheck disable=SC2016
references() { # DIR
    local names
    names=$(definitions "$1")
    (cd "$1/src" && find . -name '*.[ch]' -printf '%P\n' | sort | xargs -r awk '
        NR == FNR { home[$1] = $2; next }
        /^[ \t]*#[ \t]*include[ \t]*"/ {
            split($0, part, "\""); print FILENAME, part[2], part[2]
            next
        }
        /^[ \t]*(\/\*|\*)/ { next }
        FILENAME ~ /\.c$/ {
            line = $0
            gsub(/"([^"\\]|\\.)*"|\/\*.*\*\//, "", line)
            while (match(line, /mkv_[a-z0-9_]+/)) {
                word = substr(line, RSTART, RLENGTH)
                if (word in home) print FILENAME, home[word], word
                line = substr(line, RSTART + RLENGTH)
            }
        }' <(echo "$names")) | sort -u
}

# Red: from a lower floor to a higher one.
climbs() { # < REFERENCES
    awk -v floors="${floors[*]}" '
        function floor(path, part) {
            if (path == "morikv.h") return 0
            part = (split(path, parts, "/") > 1) ? parts[1] : "top"
            return part in number ? number[part] : -1
        }
        BEGIN { n = split(floors, name, " "); for (i = 1; i <= n; ++i) number[name[i]] = i }
        floor($1) == -1 { print "src/" $1 " is in no room of check_floors.sh"; bad = 1; next }
        floor($2) > floor($1) {
            print "src/" $1 " must not climb to " $2 ($3 == $2 ? "" : ": it names " $3)
            bad = 1
        }
        END { exit bad }'
}

# Red: a circle of files that call each other, or of headers that include each other.
circles() { # < REFERENCES
    awk '$1 != $2 { print $1, $2 }' | sort -u | tsort 2>&1 >/dev/null | sed 's/^tsort: //; s/^-: input contains a loop:/src: a circle of files:/' |
        { ! grep .; }
}

# The figures of docs/design.md.
counts() { # DIR < REFERENCES
    local files references
    files=$(find "$1/src" -name '*.[ch]' | wc -l)
    references=$(awk '$1 != $2 { print $1, $2 }' | sort -u | wc -l)
    echo "src: $files files, $references includes and calls between files"
}

check() { # DIR
    local found rc=0
    [ -d "$1/src" ] || return 0
    found=$(references "$1")
    climbs <<<"$found" || rc=1
    circles <<<"$found" || rc=1
    counts "$1" <<<"$found"
    return $rc
}

two_rooms() {
    printf 'int mkv_peer_a(void)\n{\n    return mkv_ctx_a();\n}\n' | write src/peer/peer.c
    printf 'int mkv_ctx_a(void)\n{\n    return 0;\n}\n' | write src/base/ctx.c
}

samples() {
    two_rooms
    echo '#include "peer/peer.h"' | write src/base/list.h
    bad 'an include upward' 'src/base/list.h must not climb to peer/peer.h'
    two_rooms
    printf 'int mkv_low(void)\n{\n    return mkv_peer_a();\n}\n' | write src/wire/wire.c
    bad 'a call upward' 'src/wire/wire.c must not climb to peer/peer.c: it names mkv_peer_a'
    two_rooms
    printf 'static void\nmkv_own(void)\n{\n}\n\nint\nmkv_split(int a,\n    int b)\n{\n    return 0;\n}\n' | write src/stats.c
    printf 'void f(void)\n{\n    mkv_own();\n    mkv_split(1, 2);\n}\n' | write src/post/post.c
    bad 'a call to the top' 'post/post.c must not climb to stats.c: it names mkv_split'
    two_rooms
    echo 'int a;' | write src/cellar/new.c
    printf '#include "base/list.h"\n' | write src/cellar/new.c
    bad 'a room without a floor' 'src/cellar/new.c is in no room'
    printf '#include "xfer/leg.h"\nint mkv_a(void)\n{\n    return mkv_b();\n}\n' | write src/xfer/xfer.c
    printf 'int mkv_b(void)\n{\n    return mkv_a();\n}\n' | write src/xfer/leg.c
    bad 'a circle of files' 'xfer/leg.c'
    two_rooms
    printf '#include "base/list.h"\n#include "morikv.h"\n/* mkv_top() calls this */\nint mkv_top(void)\n{\n    return mkv_peer_a();\n}\n' | write src/stats.c
    good 'rooms that only look down'
}

tool tsort
main "$@"

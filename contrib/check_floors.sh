#!/bin/bash
# Rooms are floors: an include or a call goes down or stays in its room, and no files
# refer to each other in a circle. This holds for src, ucx_plugin and perf.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib_check.sh"

# Rooms of each part, lowest first. "." stands for the files in the part's own folder. The longest
# matching room counts, so xgmi stands for the files in xgmi/ itself.
floors_of() { # PART
    case $1 in
    src) echo wire base memory plan peer message xfer stage post direct . ;;
    ucx_plugin)
        echo loader base base/memory copy \
            xgmi/peer xgmi/memory xgmi/copy xgmi/message xgmi \
            rdma/device rdma/queue rdma/memory rdma/ep rdma/op rdma/recovery rdma .
        ;;
    perf) echo base workload memory kv_perf/report kv_perf/engine kv_perf gpu risks bench . ;;
    esac
}

# "NAME FILE" of each function with external linkage that one file alone defines: a
# definition begins in column 1.
# shellcheck disable=SC2016
definitions() { # DIR PART
    (cd "$1/$2" && find . -name '*.c' -printf '%P\n' | sort | xargs -r awk -v libc='^(main|malloc|calloc|realloc|free)$' '
        FNR == 1 { head = "" }
        /^[A-Za-z_]/ && !/[;=]/ && !/^(typedef|struct|enum|union|static|extern) / { head = "" }
        /^static / { head = "-" }
        /^[A-Za-z_]/ && head != "-" && match($0, /[a-z_][a-z0-9_]+\(/) {
            head = substr($0, RSTART, RLENGTH - 1)
        }
        /^\{/ { if (head != "" && head != "-" && head !~ libc) print head, FILENAME }
        /^[{}]/ || /;$/ { head = "" }') | sort -u |
        awk '{ n[$1]++; file[$1] = $2 } END { for (f in n) if (n[f] == 1) print f, file[f] }'
}

# "FROM TO WORD": a file and the file of its part that it includes, or whose function it
# names. Includes are relative to the part, or to the tree.
# shellcheck disable=SC2016
references() { # DIR PART
    local names
    names=$(definitions "$1" "$2")
    (cd "$1/$2" && find . -name '*.[ch]' -printf '%P\n' | sort | xargs -r awk -v part="$2/" '
        NR == FNR { if (NF == 2) home[$1] = $2; next }
        FNR == 1 { in_comment = 0 }
        /^[ \t]*#[ \t]*include[ \t]*"/ {
            split($0, path, "\""); to = path[2]
            if (index(to, part) == 1) to = substr(to, length(part) + 1)
            print FILENAME, to, to
            next
        }
        /^[ \t]*(\/\*|\*)/ { next }
        FILENAME ~ /\.c$/ {
            line = $0
            gsub(/"([^"\\]|\\.)*"|\/\*.*\*\//, "", line)
            while (match(line, /[A-Za-z_][A-Za-z0-9_]*/)) {
                word = substr(line, RSTART, RLENGTH)
                before = (RSTART > 1) ? substr(line, RSTART - 1, 1) : ""
                if (word in home && before != "." && before != ">") print FILENAME, home[word], word
                line = substr(line, RSTART + RLENGTH)
            }
        }' <(echo "$names") | while read -r from to word; do
        [ ! -e "$to" ] || echo "$from $to $word"
    done) | sort -u
}

# Report references from a lower floor to a higher one.
climbs() { # PART < REFERENCES
    awk -v part="$1" -v floors="$(floors_of "$1")" '
        function floor(path) {
            if (path == "morikv.h" || path ~ /\/local\.h$/) return 0
            while (sub(/\/[^\/]*$/, "", path)) if (path in number) return number[path]
            return (path !~ /\//) ? number["."] : -1
        }
        function room(path, dir) {
            dir = path
            if (dir !~ /\//) return 1
            sub(/\/[^\/]*$/, "", dir)
            return dir in number
        }
        BEGIN { n = split(floors, name, " "); for (i = 1; i <= n; ++i) number[name[i]] = i }
        !room($1) { print part "/" $1 " is in no room of check_floors.sh"; bad = 1; next }
        floor($2) > floor($1) {
            print part "/" $1 " must not climb to " $2 ($3 == $2 ? "" : ": it names " $3)
            bad = 1
        }
        END { exit bad }'
}

# Report circles of files that call each other, or of headers that include each other.
circles() { # PART < REFERENCES
    awk '$1 != $2 { print $1, $2 }' | sort -u | tsort 2>&1 >/dev/null |
        sed "s/^tsort: //; s/^-: input contains a loop:/$1: a circle of files:/" | { ! grep .; }
}

# Files, and includes and calls between them.
counts() { # DIR PART < REFERENCES
    local files references
    files=$(find "$1/$2" -name '*.[ch]' | wc -l)
    references=$(awk '$1 != $2 { print $1, $2 }' | sort -u | wc -l)
    echo "$2: $files files, $references includes and calls between files"
}

check() { # DIR
    local part found rc=0

    for part in src ucx_plugin perf; do
        [ -d "$1/$part" ] || continue
        found=$(references "$1" "$part")
        [ -n "$found" ] || continue
        climbs "$part" <<<"$found" || rc=1
        circles "$part" <<<"$found" || rc=1
        counts "$1" "$part" <<<"$found"
    done
    return $rc
}

two_rooms() {
    printf 'int mkv_peer_a(void)\n{\n    return mkv_ctx_a();\n}\n' | write src/peer/peer.c
    printf 'int mkv_ctx_a(void)\n{\n    return 0;\n}\n' | write src/base/ctx.c
    echo 'int mkv_peer_a(void);' | write src/peer/peer.h
    echo 'int list;' | write src/base/list.h
}

two_floors() {
    printf '#include "rdma/queue/rdma_qp.h"\nint muct_ep(void)\n{\n    return muct_qp();\n}\n' | write ucx_plugin/rdma/ep/rdma_ep.c
    printf 'int muct_qp(void)\n{\n    return 0;\n}\n' | write ucx_plugin/rdma/queue/rdma_qp.c
    echo 'int muct_qp(void);' | write ucx_plugin/rdma/queue/rdma_qp.h
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
    printf '#include "base/list.h"\n' | write src/cellar/new.c
    bad 'a room without a floor' 'src/cellar/new.c is in no room'
    echo 'int leg;' | write src/xfer/leg.h
    printf '#include "xfer/leg.h"\nint mkv_a(void)\n{\n    return mkv_b();\n}\n' | write src/xfer/xfer.c
    printf 'int mkv_b(void)\n{\n    return mkv_a();\n}\n' | write src/xfer/leg.c
    bad 'a circle of files' 'xfer/leg.c'
    two_floors
    printf 'int muct_qp(void)\n{\n    return muct_ep();\n}\n' | write ucx_plugin/rdma/queue/rdma_qp.c
    bad 'a call upward in the plugin' 'ucx_plugin/rdma/queue/rdma_qp.c must not climb to rdma/ep/rdma_ep.c: it names muct_ep'
    two_floors
    echo '#include "rdma/rdma_tl.h"' | write ucx_plugin/rdma/ep/rdma_ep.h
    echo 'int tl;' | write ucx_plugin/rdma/rdma_tl.h
    bad 'an include of the face' 'rdma/ep/rdma_ep.h must not climb to rdma/rdma_tl.h'
    printf 'int kvp_a(void)\n{\n    return kvp_b();\n}\n' | write perf/memory/pool.c
    printf 'int kvp_b(void)\n{\n    return 0;\n}\n' | write perf/kv_perf/engine/run.c
    bad 'a call upward in perf' 'perf/memory/pool.c must not climb to kv_perf/engine/run.c: it names kvp_b'
    two_rooms
    printf '#include "base/list.h"\n#include "morikv.h"\n/* mkv_top() calls this */\nint mkv_top(void)\n{\n    return mkv_peer_a();\n}\n' | write src/stats.c
    good 'rooms that only look down'
    two_floors
    good 'floors of the plugin'
}

tool tsort
main "$@"

#!/bin/bash
# Instructions and doorbells of mori_rdma a work request, and a remote key packed, unpacked and
# released, as a table:
#   test/bench/bench_rdma.sh [BUILD [--figures]]
# With --figures lines "NAME FIGURE" of mori_rdma alone, for perf/bench/bench_check.sh.
# The device is fake and completes at once; its cost, callees included, has a separate column, and
# the benchmark's instructions are not counted. Without valgrind: time alone.
set -euo pipefail
[[ ${1-} != -* ]] || {
    echo "test/bench/bench_rdma.sh: no option '$1'; expected [BUILD [--figures]]" >&2
    exit 2
}

build=$(cd "${1:-.}" && pwd)
export UCX_PLUGIN_PATH=$build/.libs
export LD_LIBRARY_PATH=$build/test/fake/verbs/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
program=$build/test/bench/.libs/bench_rdma
[ -x "$program" ] || program=$build/test/bench/bench_rdma

if ! command -v valgrind >/dev/null; then
    echo "test/bench/bench_rdma.sh: no valgrind, so no instructions: ns a work request only" >&2
    exec "$program"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Split instructions by owner: mori_rdma, UCX and the C library, and the fake with its
# callees. A line "calls=" is followed by the inclusive cost of the call, which belongs to the
# callee.
split_cost() { # FILE
    awk 'function object(path) {
             if (path ~ /libibverbs\.so/) return "fake"
             if (path ~ /mori-core/) return "ours"
             return (path ~ /\/bench_rdma/) ? "bench" : "other"
         }
         /^ob=/ { own = object($0); callee = own; next }
         /^fn=/ { callee = own; next }
         /^cob=/ { callee = object($0); next }
         /^calls=/ {
             getline
             if (callee == "fake" && own != "fake") fake += $2
             callee = own
             next
         }
         /^(0x)?[0-9a-f+*-]+ [0-9]+$/ { cost[own] += $2; total += $2 }
         END { print cost["ours"] + 0, total - cost["ours"] - cost["bench"] - fake, fake + 0 }' "$1"
}

# Sets ours, other, fake and wrs.
count_row() { # ROW
    valgrind -q --tool=callgrind --collect-atstart=no --compress-strings=no --compress-pos=no \
        --callgrind-out-file="$work/out" "$program" "$1" >"$work/row"
    read -r ours other fake < <(split_cost "$work/out")
    wrs=$(awk '/^row/ { print $6 }' "$work/row")
}

# Rows that bench_check.sh watches
watched=("put 1024 1" "put 1024 4" "put 1024 16" "list 1024 1" "list 1024 4" "list 1024 16" "key 1024 1")

# "NUMBER OP BLOCKS BATCH" of each of them; nothing is timed before all are there.
find_watched() {
    "$program" --list | awk '{ print NR - 1, $0 }' |
        grep -E " ($(IFS='|' && echo "${watched[*]}"))\$" >"$work/watched" || true
    [ "$(wc -l <"$work/watched")" -eq ${#watched[@]} ] || {
        echo "test/bench/bench_rdma.sh: of ${#watched[@]} rows the program has: $(tr '\n' ';' <"$work/watched")" >&2
        exit 1
    }
}

# Print the cost of a work request by its batch, and of a key; then the gain by batches of 16.
figures() {
    local row op batch figure
    declare -A of

    find_watched
    while read -r row op _ batch; do
        count_row "$row"
        figure=$(awk -v o="$ours" -v w="$wrs" 'BEGIN { printf "%.1f", o / w }')
        of[$op.$batch]=$figure
        echo "rdma.$op.$batch $figure"
    done <"$work/watched"
    for op in put list; do
        awk -v op=$op -v one="${of[$op.1]}" -v many="${of[$op.16]}" \
            'BEGIN { printf "rdma.%s.gain %.2f\n", op, one / many }'
    done
}

[ "${2:-}" != --figures ] || { figures; exit; }

"$program" | grep '^row' >"$work/time"
echo "| operation | blocks | batch | work requests | doorbells | mori_rdma, instr/wr | UCX and libc | fake device | ns |"
echo "|---|---|---|---|---|---|---|---|---|"
row=0
while read -r _ op blocks batch _ wrs _ doorbells _ _ _ ns; do
    count_row $row
    awk -v op="$op" -v b="$blocks" -v n="$batch" -v w="$wrs" -v d="$doorbells" \
        -v o="$ours" -v u="$other" -v f="$fake" -v ns="$ns" 'BEGIN {
            printf "| %s | %d | %d | %d | %d | %.1f | %.1f | %.1f | %s |\n",
                op, b, n, w, d, o / w, u / w, f / w, ns }'
    row=$((row + 1))
done <"$work/time"
